// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "config_form.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/nn/models/classification_loss.h"
#include "tessera/nn/models/resnet.h"

namespace tessera::nn {
namespace {

template <class Visit, class Config>
void visit_resnet_keys(Config& config, Visit&& visit) {
  visit("num_channels", config.num_channels);
  visit("embedding_size", config.embedding_size);
  visit("hidden_sizes", config.hidden_sizes);
  visit("depths", config.depths);
  visit("layer_type", config.layer_type);
  visit("hidden_act", config.hidden_act);
  visit("downsample_in_first_stage", config.downsample_in_first_stage);
  visit("downsample_in_bottleneck", config.downsample_in_bottleneck);
}

const ConfigForm& resnet_form() {
  static const ConfigForm kForm{.class_name = "ResNetConfig",
                                .model_type = "resnet",
                                .architecture = "ResNetForImageClassification",
                                .kept = "stage_names out_features out_indices"};
  return kForm;
}

void check_resnet(const ResNetConfig& config, const std::string& origin) {
  check_config_size(origin, "num_channels", config.num_channels);
  check_config_size(origin, "embedding_size", config.embedding_size);
  check_config_size(origin, "the number of labels", config.num_labels);
  check_problem_type(origin, config.problem_type);
  require(!config.depths.empty() && config.depths.size() == config.hidden_sizes.size(),
          "{}: hidden_sizes and depths need one entry for each stage, got {} and {} entries", origin,
          config.hidden_sizes.size(), config.depths.size());
  for (const std::int64_t size : config.hidden_sizes) check_config_size(origin, "each of hidden_sizes", size);
  for (const std::int64_t depth : config.depths) check_config_count(origin, "each of depths", depth);
  const bool is_bottleneck = config.layer_type == "bottleneck";
  require(is_bottleneck || config.layer_type == "basic",
          "{}: layer_type must be \"basic\" or \"bottleneck\", got \"{}\"", origin, config.layer_type);
  for (const std::int64_t size : config.hidden_sizes)
    require(!is_bottleneck || size >= 4,
            "{}: a bottleneck of {} channels has no channel within; hidden_sizes must be 4 "
            "or more",
            origin, size);
  check_config_activation(origin, "hidden_act", config.hidden_act);
}

}  // namespace

// Found by read_config() and write_config().
template <class Visit>
static void for_each_key(ResNetConfig& config, Visit&& visit) {
  visit_resnet_keys(config, visit);
}
template <class Visit>
static void for_each_key(const ResNetConfig& config, Visit&& visit) {
  visit_resnet_keys(config, visit);
}

ResNetConfig ResNetConfig::resnet18(std::int64_t num_labels) {
  ResNetConfig out;
  out.hidden_sizes = {64, 128, 256, 512};
  out.depths = {2, 2, 2, 2};
  out.layer_type = "basic";
  out.num_labels = num_labels;
  return out;
}
ResNetConfig ResNetConfig::resnet50(std::int64_t num_labels) {
  ResNetConfig out;
  out.num_labels = num_labels;
  return out;
}
ResNetConfig ResNetConfig::tiny(std::int64_t num_labels) {
  ResNetConfig out;
  out.embedding_size = 8;
  out.hidden_sizes = {8, 12};
  out.depths = {1, 2};
  out.num_labels = num_labels;
  return out;
}

void ResNetConfig::check() const { check_resnet(*this, "ResNet configuration"); }

ResNetConfig ResNetConfig::from_json(const std::string& text, const std::string& origin) {
  const JsonObject json = JsonObject::parse(text, origin);
  auto config = read_config<ResNetConfig>(json, resnet_form());
  config.num_labels = read_label_count(json);
  config.problem_type = read_problem_type(json);
  config.source_json = text;
  check_resnet(config, origin);
  return config;
}

ResNetConfig ResNetConfig::from_file(const std::string& path) { return from_json(read_file(path), path); }

std::string ResNetConfig::to_json() const {
  JsonObject json = write_config(*this, resnet_form(), source_json);
  write_label_count(json, num_labels);
  write_problem_type(json, problem_type);
  return json.str();
}

}  // namespace tessera::nn
