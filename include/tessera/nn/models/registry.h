// SPDX-License-Identifier: Apache-2.0
// The models that a config.json can describe: one row for each class of Hugging Face.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/nn/models/model.h"

namespace tessera::nn {

/// A class of Hugging Face that Tessera has.
struct ModelRow {
  std::string_view architecture;  // Hugging Face's class: LlamaForCausalLM
  std::string_view model_type;    // llama
  /// Makes a model from the text of a config.json. Errors name `origin`.
  std::unique_ptr<PretrainedModel> (*make)(const std::string& config, const std::string& origin, DType dtype);
};
/// All models. The first row of a model_type is its default.
const std::vector<ModelRow>& model_table();

/// Error unless a row has this model_type, or `name` is "".
void check_model_type(const std::string& name);

/// Makes the model that a config.json describes: by its `architectures`, else by its `model_type`, else by `fallback`.
/// `dtype` is the type of the parameters. Errors: the configuration names no model; the model is unknown (with the
/// nearest names); errors of the configuration.
std::unique_ptr<PretrainedModel> make_model(const std::string& config, const std::string& origin,
                                            DType dtype = DType::kF32, const std::string& fallback = "");
/// The same for causal language models. Error if the configuration describes another kind of model.
std::unique_ptr<CausalLM> make_causal_lm(const std::string& config, const std::string& origin,
                                         DType dtype = DType::kF32, const std::string& fallback = "");

}  // namespace tessera::nn
