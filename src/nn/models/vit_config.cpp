// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "config_form.h"
#include "tessera/base/files.h"
#include "tessera/nn/models/classification_loss.h"
#include "tessera/nn/models/vit.h"

namespace tessera::nn {
namespace {

template <class Config, class Visit>
void visit_vit_keys(Config& config, Visit&& visit) {
  visit("hidden_size", config.hidden_size);
  visit("num_hidden_layers", config.num_hidden_layers);
  visit("num_attention_heads", config.num_attention_heads);
  visit("intermediate_size", config.intermediate_size);
  visit("hidden_act", config.hidden_act);
  visit("hidden_dropout_prob", config.hidden_dropout_prob);
  visit("attention_probs_dropout_prob", config.attention_probs_dropout_prob);
  visit("initializer_range", config.initializer_range);
  visit("layer_norm_eps", config.layer_norm_eps);
  visit("image_size", config.image_size);
  visit("patch_size", config.patch_size);
  visit("num_channels", config.num_channels);
  visit("qkv_bias", config.qkv_bias);
}

const ConfigForm& vit_form() {
  static const ConfigForm kForm{.class_name = "ViTConfig",
                                .model_type = "vit",
                                .architecture = "ViTForImageClassification",
                                .kept = "encoder_stride pooler_output_size pooler_act"};
  return kForm;
}

void check_image_sizes(const ViTConfig& config, const std::string& origin) {
  for (const auto* sizes : {&config.image_size, &config.patch_size}) {
    const char* key = sizes == &config.image_size ? "image_size" : "patch_size";
    require(sizes->size() == 1 || sizes->size() == 2, "{}: {} needs one number, or height and width, got {} numbers",
            origin, key, sizes->size());
    for (const std::int64_t size : *sizes) check_config_size(origin, key, size);
  }
  require(config.patch_rows() >= 1 && config.patch_columns() >= 1, "{}: a patch of {} does not fit into an image of {}",
          origin, fmt::join(config.patch_size, "x"), fmt::join(config.image_size, "x"));
}

void check_vit(const ViTConfig& config, const std::string& origin) {
  check_config_size(origin, "hidden_size", config.hidden_size);
  check_config_count(origin, "num_hidden_layers", config.num_hidden_layers);
  check_config_size(origin, "num_attention_heads", config.num_attention_heads);
  check_config_size(origin, "intermediate_size", config.intermediate_size);
  check_config_size(origin, "num_channels", config.num_channels);
  check_config_size(origin, "the number of labels", config.num_labels);
  check_problem_type(origin, config.problem_type);
  check_image_sizes(config, origin);
  require(config.hidden_size % config.num_attention_heads == 0,
          "{}: hidden_size {} is not a multiple of num_attention_heads {}", origin, config.hidden_size,
          config.num_attention_heads);
  check_config_activation(origin, "hidden_act", config.hidden_act);
  check_config_probability(origin, "hidden_dropout_prob", config.hidden_dropout_prob);
  check_config_probability(origin, "attention_probs_dropout_prob", config.attention_probs_dropout_prob);
  require(config.layer_norm_eps > 0, "{}: layer_norm_eps must be above 0, got {}", origin, config.layer_norm_eps);
  require(config.initializer_range >= 0, "{}: initializer_range must not be negative, got {}", origin,
          config.initializer_range);
}

}  // namespace

// Found by read_config() and write_config().
template <class Visit>
static void for_each_key(ViTConfig& config, Visit&& visit) {
  visit_vit_keys(config, visit);
}
template <class Visit>
static void for_each_key(const ViTConfig& config, Visit&& visit) {
  visit_vit_keys(config, visit);
}

ViTConfig ViTConfig::tiny(std::int64_t num_labels) {
  ViTConfig out;
  out.hidden_size = 16;
  out.num_hidden_layers = 2;
  out.num_attention_heads = 2;
  out.intermediate_size = 32;
  out.image_size = {12};
  out.patch_size = {4};
  out.num_labels = num_labels;
  return out;
}
ViTConfig ViTConfig::base(std::int64_t num_labels) {
  ViTConfig out;
  out.num_labels = num_labels;
  return out;
}
ViTConfig ViTConfig::large(std::int64_t num_labels) {
  ViTConfig out;
  out.hidden_size = 1024;
  out.num_hidden_layers = 24;
  out.num_attention_heads = 16;
  out.intermediate_size = 4096;
  out.num_labels = num_labels;
  return out;
}

void ViTConfig::check() const { check_vit(*this, "ViT configuration"); }

ViTConfig ViTConfig::from_json(const std::string& text, const std::string& origin) {
  const JsonObject json = JsonObject::parse(text, origin);
  auto config = read_config<ViTConfig>(json, vit_form());
  config.num_labels = read_label_count(json);
  config.problem_type = read_problem_type(json);
  config.source_json = text;
  check_vit(config, origin);
  return config;
}

ViTConfig ViTConfig::from_file(const std::string& path) { return from_json(read_file(path), path); }

std::string ViTConfig::to_json() const {
  JsonObject json = write_config(*this, vit_form(), source_json);
  // Hugging Face writes one number for squares.
  if (image_size.size() == 1) json.set("image_size", image_size.front());
  if (patch_size.size() == 1) json.set("patch_size", patch_size.front());
  write_label_count(json, num_labels);
  write_problem_type(json, problem_type);
  return json.str();
}

}  // namespace tessera::nn
