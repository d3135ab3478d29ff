// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/json_object.h"
#include "tessera/base/text.h"
#include "tessera/nn/models/bert.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/nn/models/llama.h"
#include "tessera/nn/models/mistral.h"
#include "tessera/nn/models/mixtral.h"
#include "tessera/nn/models/qwen.h"
#include "tessera/nn/models/resnet.h"
#include "tessera/nn/models/vit.h"

namespace tessera::nn {
namespace {

template <class M>
std::unique_ptr<PretrainedModel> make_of(const std::string& text, const std::string& origin, DType dtype) {
  typename M::Config config = M::Config::from_json(text, origin);
  config.dtype = dtype;
  return std::make_unique<M>(config);
}

const ModelRow* row_of(std::string_view ModelRow::*field, const std::string& value) {
  const auto& table = model_table();
  const auto found = std::find_if(table.begin(), table.end(), [&](const ModelRow& row) { return row.*field == value; });
  return found == table.end() ? nullptr : &*found;
}

std::vector<std::string> known_values(std::string_view ModelRow::*field) {
  std::vector<std::string> out;
  for (const ModelRow& row : model_table())
    if (std::find(out.begin(), out.end(), row.*field) == out.end()) out.emplace_back(row.*field);
  return out;
}

// What a model that is no causal language model is, and which program trains it.
std::string_view other_use_of(const PretrainedModel& model) {
  return model.class_name().starts_with("Bert") ? "an encoder; run_mlm and run_classification train it"
                                                : "a classifier of images; train_imagenet trains it";
}

}  // namespace

const std::vector<ModelRow>& model_table() {
  static const std::vector<ModelRow> kTable = {
      {"GPT2LMHeadModel", "gpt2", make_of<GPT2LMHeadModel>},
      {"LlamaForCausalLM", "llama", make_of<LlamaForCausalLM>},
      {"MistralForCausalLM", "mistral", make_of<MistralForCausalLM>},
      {"Qwen2ForCausalLM", "qwen2", make_of<Qwen2ForCausalLM>},
      {"Qwen3ForCausalLM", "qwen3", make_of<Qwen3ForCausalLM>},
      {"MixtralForCausalLM", "mixtral", make_of<MixtralForCausalLM>},
      {"BertForMaskedLM", "bert", make_of<BertForMaskedLM>},
      {"BertForSequenceClassification", "bert", make_of<BertForSequenceClassification>},
      {"BertModel", "bert", make_of<BertModel>},
      {"ResNetForImageClassification", "resnet", make_of<ResNetForImageClassification>},
      {"ViTForImageClassification", "vit", make_of<ViTForImageClassification>},
  };
  return kTable;
}

void check_model_type(const std::string& name) {
  require(name.empty() || row_of(&ModelRow::model_type, name) != nullptr, "there is no model of model_type \"{}\"{}",
          name, [&] { return suggest_name(name, known_values(&ModelRow::model_type)); });
}

std::unique_ptr<PretrainedModel> make_model(const std::string& config, const std::string& origin, DType dtype,
                                            const std::string& fallback) {
  const JsonObject json = JsonObject::parse(config, origin);
  std::vector<std::string> architectures;
  if (!json.is_null("architectures")) json.read("architectures", architectures);
  check_model_type(fallback);
  std::string type = architectures.empty() ? fallback : "";
  if (!json.is_null("model_type")) json.read("model_type", type);
  for (const std::string& architecture : architectures)
    if (const ModelRow* row = row_of(&ModelRow::architecture, architecture)) return row->make(config, origin, dtype);
  require(!architectures.empty() || !type.empty(), "{}: has neither architectures nor model_type, one of {}", origin,
          fmt::join(known_values(&ModelRow::model_type), ", "));
  const ModelRow* row = row_of(&ModelRow::model_type, type);
  require(row != nullptr, "{}: there is no model of model_type \"{}\"{}", origin, type,
          [&] { return suggest_name(type, known_values(&ModelRow::model_type)); });
  // Another class with the same body, such as GPT2Model, has the weights of the default class or a part of them.
  return row->make(config, origin, dtype);
}

std::unique_ptr<CausalLM> make_causal_lm(const std::string& config, const std::string& origin, DType dtype,
                                         const std::string& fallback) {
  std::unique_ptr<PretrainedModel> model = make_model(config, origin, dtype, fallback);
  require(dynamic_cast<CausalLM*>(model.get()) != nullptr, "{}: {} is not a causal language model, but {}", origin,
          model->class_name(), [&] { return other_use_of(*model); });
  return std::unique_ptr<CausalLM>(static_cast<CausalLM*>(model.release()));
}

}  // namespace tessera::nn
