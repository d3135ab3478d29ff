// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/rmsprop.h"

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::optim {

RMSprop::RMSprop(std::vector<Tensor> parameters, const RMSpropOptions& options)
    : RMSprop(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

RMSprop::RMSprop(std::vector<ParameterGroup> groups, const RMSpropOptions& options)
    : Optimizer(std::move(groups), options.learning_rate), options_(options) {
  require(options.alpha >= 0, "alpha must not be negative, got {}", options.alpha);
  require(options.momentum >= 0, "momentum must not be negative, got {}", options.momentum);
  require(options.epsilon >= 0, "epsilon must not be negative, got {}", options.epsilon);
  set_maximize(options.maximize);
  squares_ = &make_state("square_avg", {.format = options.state_format, .is_signed = false});
  if (options.momentum > 0) buffers_ = &make_state("momentum_buffer", {.format = options.state_format});
  if (options.centered) averages_ = &make_state("grad_avg", {.format = options.state_format});
}

Tensor RMSprop::update(const Update& update) {
  const Tensor gradient = penalized_gradient(update);
  const double alpha = options_.alpha;
  const auto averaged = [&](StateQuantity& state, const Tensor& x) {
    Tensor out = state.read(update.index) * alpha + x * (1 - alpha);
    write(state, update, out);
    return out;
  };
  Tensor variance = averaged(*squares_, gradient * gradient);
  // Rounding may make the difference negative.
  if (averages_ != nullptr) variance = maximum(variance - square(averaged(*averages_, gradient)), 0.0);
  Tensor change = gradient / (sqrt(variance) + options_.epsilon);
  if (buffers_ != nullptr) {
    change = buffers_->read(update.index) * options_.momentum + change;
    write(*buffers_, update, change);
  }
  return update.value - change * rate(update);
}

}  // namespace tessera::optim
