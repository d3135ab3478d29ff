// SPDX-License-Identifier: Apache-2.0
#include "decoder_config.h"
#include "tessera/base/files.h"
#include "tessera/nn/models/mixtral.h"

namespace tessera::nn {
namespace {

constexpr double kMixtralTheta = 1000000;
const ConfigForm kMixtralForm{
    .class_name = "MixtralConfig",
    .model_type = "mixtral",
    .architecture = "MixtralForCausalLM",
    .kept =
        "rope_scaling rope_theta rope_parameters num_key_value_heads head_dim pad_token_id sliding_window "
        "expert_capacity_factor router_z_loss_coef",
    .fixed = {{"attention_bias", false}, {"mlp_bias", false}}};

template <class Config, class Visit>
void visit_mixtral_keys(Config& config, Visit&& visit) {
  visit_decoder_keys(config, visit);
  visit("num_local_experts", config.num_local_experts);
  visit("num_experts_per_tok", config.num_experts_per_tok);
  visit("output_router_logits", config.output_router_logits);
  visit("router_aux_loss_coef", config.router_aux_loss_coef);
  visit("router_jitter_noise", config.router_jitter_noise);
}

void check_mixtral(const MixtralConfig& config, const std::string& origin) {
  check_decoder(config, origin);
  check_config_count(origin, "num_local_experts", config.num_local_experts);
  require(config.num_experts_per_tok >= 1 && config.num_experts_per_tok <= config.num_local_experts,
          "{}: num_experts_per_tok must be from 1 to {}, got {}", origin, config.num_local_experts,
          config.num_experts_per_tok);
  check_config_probability(origin, "router_jitter_noise", config.router_jitter_noise);
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, double>>{{"router_aux_loss_coef", config.router_aux_loss_coef},
                                                             {"expert_capacity_factor", config.expert_capacity_factor},
                                                             {"router_z_loss_coef", config.router_z_loss_coef}})
    require(value >= 0, "{}: {} must not be negative, got {}", origin, key, value);
  check_sliding_window(config, origin);
}

}  // namespace

// Found by read_config() and write_config().
template <class Visit>
static void for_each_key(MixtralConfig& config, Visit&& visit) {
  visit_mixtral_keys(config, visit);
}
template <class Visit>
static void for_each_key(const MixtralConfig& config, Visit&& visit) {
  visit_mixtral_keys(config, visit);
}

void MixtralConfig::check() const { check_mixtral(*this, "Mixtral configuration"); }

MixtralConfig MixtralConfig::from_json(const std::string& text, const std::string& origin) {
  const JsonObject json = JsonObject::parse(text, origin);
  auto config = read_config<MixtralConfig>(json, kMixtralForm);
  read_decoder_keys(json, kMixtralTheta, config);
  read_sliding_window(json, config);
  json.read("expert_capacity_factor", config.expert_capacity_factor);
  json.read("router_z_loss_coef", config.router_z_loss_coef);
  config.source_json = text;
  check_mixtral(config, origin);
  return config;
}

MixtralConfig MixtralConfig::from_file(const std::string& path) { return from_json(read_file(path), path); }

std::string MixtralConfig::to_json() const {
  JsonObject json = write_config(*this, kMixtralForm, source_json);
  write_decoder_keys(*this, kMixtralTheta, json);
  write_or_null(json, "sliding_window", sliding_window);
  if (expert_capacity_factor != 0 || json.has("expert_capacity_factor"))
    json.set("expert_capacity_factor", expert_capacity_factor);
  if (router_z_loss_coef != 0 || json.has("router_z_loss_coef")) json.set("router_z_loss_coef", router_z_loss_coef);
  return json.str();
}

MixtralConfig MixtralConfig::tiny(std::int64_t vocab_size) {
  auto out = tiny_decoder<MixtralConfig>(vocab_size);
  out.intermediate_size = 56;
  out.num_local_experts = 4;
  return out;
}

MixtralConfig MixtralConfig::mixtral_8x7b() {
  MixtralConfig out;
  out.max_position_embeddings = 32768;
  return out;
}

}  // namespace tessera::nn
