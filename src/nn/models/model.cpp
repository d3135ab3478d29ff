// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/model.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kIgnoredLabel = -100;

// Shifts the labels to the left instead of slicing the logits, so that nothing of size [b, t, v] is copied.
Tensor shifted(const Tensor& given) {
  const bool is_wide = given.dtype() == DType::kS32 || given.dtype() == DType::kS64 || !is_integer(given.dtype());
  const Tensor labels = is_wide ? given : given.to(DType::kS32);  // s32 can represent the ignored label
  return pad(labels.slice(1, 1, labels.dim(1)), 1, 0, 1, static_cast<double>(kIgnoredLabel));
}

}  // namespace

Tensor input_of(const ModelInputs& inputs, std::string_view name) {
  const auto found = inputs.find(name);
  return found == inputs.end() ? Tensor() : found->second;
}

void check_inputs(std::string_view model, const ModelInputs& inputs, const std::vector<std::string>& needed,
                  const std::vector<std::string>& optional) {
  std::vector<std::string> known = needed;
  known.insert(known.end(), optional.begin(), optional.end());
  for (const auto& [name, tensor] : inputs)
    require(std::find(known.begin(), known.end(), name) != known.end(), "{} has no input {}{}", model, name,
            [&, n = name] { return suggest_name(n, known); });
  for (const auto& name : needed) require(!input_of(inputs, name).is_null(), "{} needs the input {}", model, name);
}

void check_causal_inputs(const Tensor& tokens, const CausalInputs& inputs) {
  const Tensor& mask = inputs.attention_mask;
  require(mask.is_null() || mask.dims() == tokens.dims(), "attention_mask needs the shape of the tokens {}, got {}",
          tokens.type(), [&] { return mask.type().str(); });
  const Tensor& positions = inputs.position_ids;
  if (positions.is_null()) return;
  const bool fits = positions.dims() == tokens.dims() || positions.dims() == Dims{1, tokens.dim(1)};
  require(fits && is_integer(positions.dtype()), "position_ids needs integers of the shape of the tokens {}, got {}",
          tokens.type(), positions.type());
}

Tensor seen_keys(const Tensor& attention_mask) {
  if (attention_mask.is_null()) return {};
  const Tensor seen = attention_mask.dtype() == DType::kPred ? attention_mask : attention_mask != 0.0;
  return seen.reshape({seen.dim(0), 1, 1, seen.dim(1)});
}

void PretrainedModel::shard_tensor_parallel(const Mesh& /*mesh*/, const std::string& axis) {
  fail("{} has no tensor parallelism; its weights cannot be sharded over {}", class_name(), axis);
}

void CausalLM::shard_experts(const Mesh& /*mesh*/, const std::string& axis) {
  fail("{} is no mixture of experts; it has no experts to shard over {}", class_name(), axis);
}

CausalLM::Output CausalLM::traced(const Tensor& tokens, const CausalInputs& inputs) {
  require(tokens.ndim() == 2, "{} takes tokens [batch, time], got {}", class_name(), tokens.type());
  const TraceScope own(path(), unit());
  return compute(tokens, inputs);
}

Tensor CausalLM::logits(const Tensor& tokens, const CausalInputs& inputs) { return traced(tokens, inputs).logits; }

CausalLossParts CausalLM::loss_parts(const Tensor& tokens, const Tensor& labels, const CausalInputs& inputs,
                                     double label_smoothing) {
  const TraceScope scope(path(), unit());
  const Output output = traced(tokens, inputs);
  CausalLossParts out;
  static_cast<CrossEntropyParts&>(out) =
      cross_entropy_parts(output.logits, shifted(labels), kIgnoredLabel, label_smoothing);
  out.auxiliary = output.auxiliary;
  return out;
}

Tensor CausalLM::forward(const Tensor& tokens, const Tensor& labels) {
  const Output output = traced(tokens, {});
  const Tensor loss = cross_entropy(output.logits, shifted(labels), kIgnoredLabel);
  return output.auxiliary.is_null() ? loss : loss + output.auxiliary.to(loss.dtype());
}

ModelOutput CausalLM::run(const ModelInputs& inputs) {
  check_inputs(class_name(), inputs, {"input_ids"}, {"labels", "attention_mask", "position_ids"});
  const TraceScope scope(path(), unit());
  const Output output =
      traced(input_of(inputs, "input_ids"), {input_of(inputs, "attention_mask"), input_of(inputs, "position_ids")});
  ModelOutput out{.loss = {}, .logits = output.logits};
  if (!output.auxiliary.is_null()) out.others["aux_loss"] = output.auxiliary;
  const Tensor labels = input_of(inputs, "labels");
  if (labels.is_null()) return out;
  out.loss = cross_entropy(output.logits, shifted(labels), kIgnoredLabel);
  if (!output.auxiliary.is_null()) out.loss = out.loss + output.auxiliary.to(out.loss.dtype());
  return out;
}

Embedding& CausalLM::input_embedding() { fail("{} does not name the embedding of its tokens", class_name()); }

Tensor CausalLM::step(const Tensor& /*ids*/, const StepPlace& /*place*/, KeyValueCache& /*cache*/) {
  fail("{} cannot generate text: it has no steps with a cache of keys and values", class_name());
}

CacheSizes CausalLM::cache_sizes() const {
  fail("{} cannot generate text: it has no cache of keys and values", class_name());
}

}  // namespace tessera::nn
