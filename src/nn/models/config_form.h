// SPDX-License-Identifier: Apache-2.0
// What the configurations of several models have in common: Hugging Face's config.json.
//
// A configuration `Config` has a function for_each_key(config, visit), found by argument-dependent lookup, that calls
// visit(key, field) for each of its keys. Both reading and writing use it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/json_object.h"
#include "tessera/frontend/tensor/tensor.h"
#include "tessera/nn/linear.h"

namespace tessera::nn {

/// How the configuration of a class of models is spelled.
struct ConfigForm {
  std::string_view class_name;    // Hugging Face's: BertConfig
  std::string_view model_type;    // bert
  std::string_view architecture;  // written to new files: BertForMaskedLM
  std::string_view kept;          // further keys of this class, separated by blanks, that are kept and written back
  /// Keys whose other values would describe another model than the one built here. They may be absent or null.
  std::vector<std::pair<const char*, bool>> fixed{};
};

/// Errors: another model_type, a key that neither `known` nor the form has (with the nearest one), another value of a
/// fixed key.
void check_config_keys(const JsonObject& json, const ConfigForm& form, std::vector<std::string> known);
/// Error if the weights of the model differ from those of its class: quantization_config, pruned_heads.
void check_unchanged_weights(const JsonObject& json);
/// Error unless `value` is from 1 to 2^30.
void check_config_size(std::string_view origin, std::string_view key, std::int64_t value);
/// The same for a number of layers or experts, which is at most 10,000.
void check_config_count(std::string_view origin, std::string_view key, std::int64_t value);
/// Error unless `value` is in [0, 1).
void check_config_probability(std::string_view origin, std::string_view key, double value);
/// Error, with the nearest name, unless activation() has this function.
void check_config_activation(std::string_view origin, std::string_view key, const std::string& name);

/// The number of entries of id2label, else num_labels, else 2.
std::int64_t read_label_count(const JsonObject& json);
/// Writes id2label and label2id unless the object has entries for `count` labels, or the count is 2 and it has none.
void write_label_count(JsonObject& json, std::int64_t count);

/// Reads the key problem_type; absent and null are read as "". Error unless it is a task of classification_loss().
std::string read_problem_type(const JsonObject& json);
/// Writes it. "" is written as null if the object has the key.
void write_problem_type(JsonObject& json, const std::string& problem_type);

/// Returns x in the element type in which ops use the weight (Module::set_compute_dtype).
Tensor as_operand_of(const Tensor& weight, const Tensor& x);

/// The options of the linear layers of a model.
template <class Config>
Linear::Options dense_options(const Config& config) {
  return {.dtype = config.dtype, .standard_deviation = config.initializer_range};
}

/// Reads the keys of for_each_key(). A null leaves the default.
template <class Config>
Config read_config(const JsonObject& json, const ConfigForm& form) {
  Config config;
  std::vector<std::string> known;
  for_each_key(config, [&](const char* key, const auto& /*field*/) { known.emplace_back(key); });
  check_config_keys(json, form, std::move(known));
  for_each_key(config, [&](const char* key, auto& field) {
    if (!json.is_null(key)) json.read(key, field);
  });
  return config;
}

/// Returns the keys of `source_json`, or of a new file if it is empty, with the values of for_each_key().
template <class Config>
JsonObject write_config(const Config& config, const ConfigForm& form, const std::string& source_json) {
  JsonObject json{std::string(form.class_name)};
  if (source_json.empty()) {
    json.set("model_type", std::string(form.model_type));
    json.set("architectures", std::vector<std::string>{std::string(form.architecture)});
  } else {
    json = JsonObject::parse(source_json, std::string(form.class_name));
  }
  for_each_key(config, [&](const char* key, const auto& field) { json.set(key, field); });
  return json;
}

}  // namespace tessera::nn
