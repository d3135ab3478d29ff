// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/qwen.h"

#include <concepts>

#include "decoder_config.h"
#include "tessera/base/files.h"

namespace tessera::nn {
namespace {

constexpr double kQwenTheta = 10000;
const std::string kSlidingAttention = "sliding_attention";
const std::vector<std::string> kQwenLayerTypes{kSlidingAttention, "full_attention"};

// Some files of Qwen2 have use_mrope false: a position is one number, as in every model here. Those of models for a
// million tokens have dual_chunk_attention_config, for other programs. In transformers it has no effect.
const ConfigForm kQwen2Form{.class_name = "Qwen2Config",
                            .model_type = "qwen2",
                            .architecture = "Qwen2ForCausalLM",
                            .kept =
                                "rope_scaling rope_theta rope_parameters num_key_value_heads head_dim pad_token_id "
                                "sliding_window layer_types dual_chunk_attention_config",
                            .fixed = {{"use_mrope", false}, {"mlp_bias", false}}};
const ConfigForm kQwen3Form{.class_name = "Qwen3Config",
                            .model_type = "qwen3",
                            .architecture = "Qwen3ForCausalLM",
                            .kept =
                                "rope_scaling rope_theta rope_parameters num_key_value_heads head_dim pad_token_id "
                                "sliding_window layer_types dual_chunk_attention_config",
                            .fixed = {{"use_mrope", false}, {"mlp_bias", false}}};

template <class Config>
concept IsQwen3 = std::same_as<std::remove_const_t<Config>, Qwen3Config>;
template <class Config>
concept IsQwen = std::same_as<std::remove_const_t<Config>, Qwen2Config> || IsQwen3<Config>;

template <IsQwen Config>
std::vector<std::int64_t> windows_of(const Config& config) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const bool is_sliding =
        config.layer_types.empty() ? i >= config.max_window_layers : at(config.layer_types, i) == kSlidingAttention;
    out.push_back(is_sliding && config.use_sliding_window ? config.sliding_window : 0);
  }
  return out;
}

template <IsQwen Config>
void check_layer_types(const Config& config, const std::string& origin) {
  if (config.layer_types.empty()) return;
  require(isize(config.layer_types) == config.num_hidden_layers,
          "{}: layer_types must have one entry for each of {} layers, got {}", origin, config.num_hidden_layers,
          config.layer_types.size());
  const bool has_window = config.use_sliding_window && config.sliding_window > 0;
  for (const std::string& type : config.layer_types) {
    require(std::find(kQwenLayerTypes.begin(), kQwenLayerTypes.end(), type) != kQwenLayerTypes.end(),
            "{}: unknown layer type \"{}\"{}", origin, type, [&] { return suggest_name(type, kQwenLayerTypes); });
    require(has_window || type != kSlidingAttention,
            "{}: layer_types has {}, which needs use_sliding_window true and a sliding_window", origin, type);
  }
}

template <IsQwen Config>
void check_qwen(const Config& config, const std::string& origin) {
  if constexpr (IsQwen3<Config>) check_config_size(origin, "head_dim", config.head_dim);
  check_decoder(config, origin);
  check_sliding_window(config, origin);
  check_layer_types(config, origin);
}

// Ignores entries for layers that the model does not have, so that num_hidden_layers alone can be reduced.
template <IsQwen Config>
void read_layer_types(const JsonObject& json, Config& config) {
  if (!json.is_null("layer_types")) json.read("layer_types", config.layer_types);
  const std::int64_t layers = std::max<std::int64_t>(config.num_hidden_layers, 0);
  if (isize(config.layer_types) > layers) config.layer_types.resize(static_cast<std::size_t>(layers));
}

template <IsQwen Config>
Config qwen_from_json(const std::string& text, const std::string& origin, const ConfigForm& form) {
  const JsonObject json = JsonObject::parse(text, origin);
  auto config = read_config<Config>(json, form);
  read_decoder_keys(json, kQwenTheta, config);
  read_sliding_window(json, config);
  read_layer_types(json, config);
  config.source_json = text;
  check_qwen(config, origin);
  return config;
}

template <IsQwen Config>
std::string qwen_to_json(const Config& config, const ConfigForm& form) {
  JsonObject json = write_config(config, form, config.source_json);
  write_decoder_keys(config, kQwenTheta, json);
  write_or_null(json, "sliding_window", config.sliding_window);
  if (!config.layer_types.empty()) {
    json.set("layer_types", config.layer_types);
  } else if (json.has("layer_types")) {
    json.set_null("layer_types");
  }
  return json.str();
}

template <IsQwen Config>
DecoderOptions options_of(const Config& config) {
  config.check();
  DecoderOptions out = decoder_options(config, IsQwen3<Config> ? "Qwen3" : "Qwen2");
  out.windows = config.windows();
  if constexpr (IsQwen3<Config>) {
    out.attention.bias = config.attention_bias;
    out.attention.output_bias = config.attention_bias;
    out.attention.norm_epsilon = config.rms_norm_eps;
  } else {
    out.attention.bias = true;
  }
  return out;
}

}  // namespace

// Found by read_config() and write_config().
template <IsQwen Config, class Visit>
static void for_each_key(Config& config, Visit&& visit) {
  visit_decoder_keys(config, visit);
  visit("use_sliding_window", config.use_sliding_window);
  visit("max_window_layers", config.max_window_layers);
  if constexpr (IsQwen3<Config>) visit("attention_bias", config.attention_bias);
}

Qwen2ForCausalLM::Qwen2ForCausalLM(const Qwen2Config& config)
    : DecoderForCausalLM(options_of(config)), config_(config) {}
Qwen3ForCausalLM::Qwen3ForCausalLM(const Qwen3Config& config)
    : DecoderForCausalLM(options_of(config)), config_(config) {}

void Qwen2Config::check() const { check_qwen(*this, "Qwen2 configuration"); }
void Qwen3Config::check() const { check_qwen(*this, "Qwen3 configuration"); }

std::vector<std::int64_t> Qwen2Config::windows() const { return windows_of(*this); }
std::vector<std::int64_t> Qwen3Config::windows() const { return windows_of(*this); }

Qwen2Config Qwen2Config::from_json(const std::string& text, const std::string& origin) {
  return qwen_from_json<Qwen2Config>(text, origin, kQwen2Form);
}
Qwen3Config Qwen3Config::from_json(const std::string& text, const std::string& origin) {
  return qwen_from_json<Qwen3Config>(text, origin, kQwen3Form);
}
Qwen2Config Qwen2Config::from_file(const std::string& path) { return from_json(read_file(path), path); }
Qwen3Config Qwen3Config::from_file(const std::string& path) { return from_json(read_file(path), path); }

std::string Qwen2Config::to_json() const { return qwen_to_json(*this, kQwen2Form); }
std::string Qwen3Config::to_json() const { return qwen_to_json(*this, kQwen3Form); }

}  // namespace tessera::nn
