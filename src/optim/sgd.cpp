// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/optim/optimizer.h"

namespace tessera::optim {

SGD::SGD(std::vector<Tensor> parameters, const SgdOptions& options)
    : SGD(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

SGD::SGD(std::vector<ParameterGroup> groups, const SgdOptions& options)
    : Optimizer(std::move(groups), options.learning_rate), options_(options) {
  require(options.momentum >= 0, "momentum must not be negative, got {}", options.momentum);
  require(!options.nesterov || options.momentum > 0, "nesterov needs a momentum");
  if (options.momentum > 0) buffers_ = make_state("momentum_buffer");
}

void SGD::begin_step() { rates_.clear(); }

Tensor SGD::rate(DType dtype) {
  for (const auto& [known, rate] : rates_)
    if (known == dtype) return rate;
  rates_.emplace_back(dtype, input(
                                 dtype, [this] { return learning_rate(); }, "learning_rate"));
  return rates_.back().second;
}

void SGD::update(int index, Tensor parameter, const Tensor& gradient, double weight_decay) {
  const DType dtype = state_dtype(parameter);
  const Tensor value = stored_tensor(parameter).to(dtype);
  Tensor direction = gradient.to(dtype);
  if (weight_decay != 0) direction = direction + value * weight_decay;
  if (options_.momentum > 0) {
    Tensor buffer = at(buffers_, index);
    // From zeros the first step gives buf = g, as PyTorch's does.
    buffer.assign(stored_tensor(buffer) * options_.momentum + direction);
    direction = options_.nesterov ? direction + stored_tensor(buffer) * options_.momentum : stored_tensor(buffer);
  }
  parameter.assign((value - direction * rate(dtype)).to(parameter.dtype()));
}

std::vector<Optimizer::NamedState> SGD::named_state() const {
  std::vector<NamedState> out;
  for (const auto& buffer : buffers_) out.push_back({buffer.name(), buffer});
  return out;
}

}  // namespace tessera::optim
