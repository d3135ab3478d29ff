// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/optim/optimizer.h"

namespace tessera::optim {

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options)
    : AdamW(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options)
    : Optimizer(std::move(groups), options.learning_rate), options_(options) {
  for (const double beta : {options.beta1, options.beta2})
    require(beta >= 0 && beta < 1, "betas must be in [0, 1), got {}", beta);
  require(options.epsilon >= 0, "epsilon must not be negative, got {}", options.epsilon);
  first_ = make_state("exp_avg");
  second_ = make_state("exp_avg_sq");
}

void AdamW::begin_step() { inputs_.clear(); }

AdamW::StepInputs& AdamW::inputs(DType dtype) {
  for (auto& [known, step] : inputs_)
    if (known == dtype) return step;
  const auto correction = [this](double beta) { return 1 - std::pow(beta, static_cast<double>(step_count())); };
  inputs_.emplace_back(
      dtype,
      StepInputs{input(
                     dtype, [this] { return learning_rate(); }, "learning_rate"),
                 input(
                     dtype, [=, this] { return learning_rate() / correction(options_.beta1); }, "corrected_rate"),
                 input(
                     dtype, [=, this] { return 1 / std::sqrt(correction(options_.beta2)); }, "second_factor")});
  return inputs_.back().second;
}

void AdamW::update(int index, Tensor parameter, const Tensor& gradient, double weight_decay) {
  const DType dtype = state_dtype(parameter);
  const StepInputs& step = inputs(dtype);
  const Tensor g = gradient.to(dtype);
  Tensor value = stored_tensor(parameter).to(dtype);
  if (weight_decay != 0) value = value - value * (step.rate * weight_decay);
  Tensor m = at(first_, index);
  Tensor v = at(second_, index);
  const Tensor new_m = stored_tensor(m) * options_.beta1 + g * (1 - options_.beta1);
  const Tensor new_v = stored_tensor(v) * options_.beta2 + g * g * (1 - options_.beta2);
  const Tensor denominator = sqrt(new_v) * step.second_factor + options_.epsilon;
  parameter.assign((value - new_m / denominator * step.corrected_rate).to(parameter.dtype()));
  m.assign(new_m);
  v.assign(new_v);
}

std::vector<Optimizer::NamedState> AdamW::named_state() const {
  std::vector<NamedState> out;
  for (std::size_t i = 0; i < first_.size(); ++i) {
    out.push_back({first_[i].name(), first_[i]});
    out.push_back({second_[i].name(), second_[i]});
  }
  return out;
}

}  // namespace tessera::optim
