// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/llama.h"

#include "decoder_config.h"
#include "tessera/base/files.h"

namespace tessera::nn {
namespace {

constexpr double kLlamaTheta = 10000;
const ConfigForm kLlamaForm{.class_name = "LlamaConfig",
                            .model_type = "llama",
                            .architecture = "LlamaForCausalLM",
                            .kept =
                                "pretraining_tp rope_scaling rope_theta rope_parameters num_key_value_heads head_dim "
                                "pad_token_id",
                            .fixed = {{"rope_interleaved", false}}};

template <class Config, class Visit>
void visit_llama_keys(Config& config, Visit&& visit) {
  visit_decoder_keys(config, visit);
  visit("attention_bias", config.attention_bias);
  visit("mlp_bias", config.mlp_bias);
}

DecoderOptions options_of(const LlamaConfig& config) {
  config.check();
  DecoderOptions out = decoder_options(config, "Llama");
  out.attention.bias = config.attention_bias;
  out.attention.output_bias = config.attention_bias;
  out.mlp_bias = config.mlp_bias;
  return out;
}

}  // namespace

// Found by read_config() and write_config().
template <class Visit>
static void for_each_key(LlamaConfig& config, Visit&& visit) {
  visit_llama_keys(config, visit);
}
template <class Visit>
static void for_each_key(const LlamaConfig& config, Visit&& visit) {
  visit_llama_keys(config, visit);
}

LlamaForCausalLM::LlamaForCausalLM(const LlamaConfig& config)
    : DecoderForCausalLM(options_of(config)), config_(config) {}

void LlamaConfig::check() const { check_decoder(*this, "Llama configuration"); }

LlamaConfig LlamaConfig::from_json(const std::string& text, const std::string& origin) {
  const JsonObject json = JsonObject::parse(text, origin);
  auto config = read_config<LlamaConfig>(json, kLlamaForm);
  read_decoder_keys(json, kLlamaTheta, config);
  config.source_json = text;
  check_decoder(config, origin);
  return config;
}

LlamaConfig LlamaConfig::from_file(const std::string& path) { return from_json(read_file(path), path); }

std::string LlamaConfig::to_json() const {
  JsonObject json = write_config(*this, kLlamaForm, source_json);
  write_decoder_keys(*this, kLlamaTheta, json);
  return json.str();
}

LlamaConfig LlamaConfig::tiny(std::int64_t vocab_size) { return tiny_decoder<LlamaConfig>(vocab_size); }

LlamaConfig LlamaConfig::llama2_7b() {
  LlamaConfig out;
  out.max_position_embeddings = 4096;
  out.rms_norm_eps = 1e-5;
  return out;
}

LlamaConfig LlamaConfig::llama3_8b() {
  LlamaConfig out;
  out.vocab_size = 128256;
  out.intermediate_size = 14336;
  out.num_key_value_heads = 8;
  out.max_position_embeddings = 8192;
  out.rms_norm_eps = 1e-5;
  out.rope.theta = 500000;
  return out;
}

LlamaConfig LlamaConfig::llama32_1b() {
  LlamaConfig out = llama3_8b();
  out.hidden_size = 2048;
  out.intermediate_size = 8192;
  out.num_hidden_layers = 16;
  out.head_dim = 64;
  out.max_position_embeddings = 131072;
  out.tie_word_embeddings = true;
  out.rope = {.rope_type = "llama3", .theta = 500000, .factor = 32, .original_max_position_embeddings = 8192};
  return out;
}

LlamaConfig LlamaConfig::tiny_llama_1b() {
  LlamaConfig out;
  out.hidden_size = 2048;
  out.intermediate_size = 5632;
  out.num_hidden_layers = 22;
  out.num_key_value_heads = 4;
  out.rms_norm_eps = 1e-5;
  return out;
}

}  // namespace tessera::nn
