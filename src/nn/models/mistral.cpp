// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/mistral.h"

#include "decoder_config.h"
#include "tessera/base/files.h"

namespace tessera::nn {
namespace {

constexpr double kMistralTheta = 10000;
const ConfigForm kMistralForm{.class_name = "MistralConfig",
                              .model_type = "mistral",
                              .architecture = "MistralForCausalLM",
                              .kept =
                                  "rope_scaling rope_theta rope_parameters num_key_value_heads head_dim pad_token_id "
                                  "sliding_window",
                              .fixed = {{"attention_bias", false}, {"mlp_bias", false}}};

void check_mistral(const MistralConfig& config, const std::string& origin) {
  check_decoder(config, origin);
  check_sliding_window(config, origin);
}

DecoderOptions options_of(const MistralConfig& config) {
  config.check();
  DecoderOptions out = decoder_options(config, "Mistral");
  out.attention.window = config.sliding_window;
  return out;
}

}  // namespace

// Found by read_config() and write_config().
template <class Visit>
static void for_each_key(MistralConfig& config, Visit&& visit) {
  visit_decoder_keys(config, visit);
}
template <class Visit>
static void for_each_key(const MistralConfig& config, Visit&& visit) {
  visit_decoder_keys(config, visit);
}

MistralForCausalLM::MistralForCausalLM(const MistralConfig& config)
    : DecoderForCausalLM(options_of(config)), config_(config) {}

void MistralConfig::check() const { check_mistral(*this, "Mistral configuration"); }

MistralConfig MistralConfig::from_json(const std::string& text, const std::string& origin) {
  const JsonObject json = JsonObject::parse(text, origin);
  auto config = read_config<MistralConfig>(json, kMistralForm);
  read_decoder_keys(json, kMistralTheta, config);
  read_sliding_window(json, config);
  config.source_json = text;
  check_mistral(config, origin);
  return config;
}

MistralConfig MistralConfig::from_file(const std::string& path) { return from_json(read_file(path), path); }

std::string MistralConfig::to_json() const {
  JsonObject json = write_config(*this, kMistralForm, source_json);
  write_decoder_keys(*this, kMistralTheta, json);
  write_or_null(json, "sliding_window", sliding_window);
  return json.str();
}

MistralConfig MistralConfig::tiny(std::int64_t vocab_size) {
  auto out = tiny_decoder<MistralConfig>(vocab_size);
  out.sliding_window = 16;
  return out;
}

MistralConfig MistralConfig::mistral_7b() {
  MistralConfig out;
  out.max_position_embeddings = 32768;
  out.rms_norm_eps = 1e-5;
  return out;
}

MistralConfig MistralConfig::mistral_7b_v03() {
  MistralConfig out = mistral_7b();
  out.vocab_size = 32768;
  out.sliding_window = 0;
  out.rope.theta = 1000000;
  return out;
}

}  // namespace tessera::nn
