// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/error.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/optim/optimizer.h"

namespace tessera::optim {
namespace {

// 1 in the first step.
double dampening_factor(double dampening, double step) { return step > 1 ? 1 - dampening : 1; }
Tensor dampening_factor(double dampening, const Tensor& step) {
  return where(step > 1.0, 0 * step + (1 - dampening), 1.0);
}

}  // namespace

SGD::SGD(std::vector<Tensor> parameters, const SgdOptions& options)
    : SGD(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

SGD::SGD(std::vector<ParameterGroup> groups, const SgdOptions& options)
    : Optimizer(std::move(groups), options.learning_rate), options_(options) {
  require(options.momentum >= 0, "momentum must not be negative, got {}", options.momentum);
  require(!options.nesterov || options.momentum > 0, "nesterov needs a momentum");
  require(!options.nesterov || options.dampening == 0, "nesterov needs a dampening of 0, got {}", options.dampening);
  set_maximize(options.maximize);
  if (options.momentum > 0) buffers_ = &make_state("momentum_buffer", {.format = options.state_format});
}

Tensor SGD::update(const Update& update) {
  Tensor direction = penalized_gradient(update);
  if (buffers_ != nullptr) {
    // From zeros the first step gives buf = g, as PyTorch's does.
    Tensor added = direction;
    if (options_.dampening != 0)
      added = direction * of_step("undamped", update.dtype, [dampening = options_.dampening](auto step) {
                return dampening_factor(dampening, step);
              });
    const Tensor buffer = buffers_->read(update.index) * options_.momentum + added;
    write(*buffers_, update, buffer);
    direction = options_.nesterov ? direction + buffer * options_.momentum : buffer;
  }
  return update.value - direction * rate(update);
}

}  // namespace tessera::optim
