// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/parameter_groups.h"

#include <algorithm>
#include <string>

#include "tessera/base/text.h"

namespace tessera::trainer {
namespace {

// A parameter of an embedding or of a head, by the names of Hugging Face's models.
bool is_table(const std::string& name) {
  static const std::vector<std::string> kNames{
      "wte",        "wpe", "embed_tokens", "embed_positions", "embeddings",          "lm_head",  "score",
      "classifier", "cls", "qa_outputs",   "embed_out",       "position_embeddings", "cls_token"};
  const std::vector<std::string> path = split(name, '.');
  return std::ranges::any_of(path,
                             [](const std::string& part) { return std::ranges::find(kNames, part) != kNames.end(); });
}

}  // namespace

std::vector<optim::ParameterGroup> parameter_groups(const nn::Module& model, double weight_decay) {
  std::vector<optim::ParameterGroup> groups{
      {.weight_decay = weight_decay}, {}, {.weight_decay = weight_decay, .use_muon = false}};
  for (const auto& parameter : model.named_parameters()) {
    const bool is_bias = parameter.name.ends_with("bias");
    const bool is_norm = parameter.exported_dims.size() == 1;
    const std::size_t group = is_bias || is_norm ? 1 : is_table(parameter.name) ? 2 : 0;
    groups[group].parameters.push_back(parameter.tensor);
  }
  std::erase_if(groups, [](const optim::ParameterGroup& group) { return group.parameters.empty(); });
  return groups;
}

}  // namespace tessera::trainer
