// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/adagrad.h"

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::optim {

Adagrad::Adagrad(std::vector<Tensor> parameters, const AdagradOptions& options)
    : Adagrad(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

Adagrad::Adagrad(std::vector<ParameterGroup> groups, const AdagradOptions& options)
    : Optimizer(std::move(groups), options.learning_rate), options_(options) {
  require(options.lr_decay >= 0, "lr_decay must not be negative, got {}", options.lr_decay);
  require(options.initial_accumulator_value >= 0, "initial_accumulator_value must not be negative, got {}",
          options.initial_accumulator_value);
  require(options.epsilon >= 0, "epsilon must not be negative, got {}", options.epsilon);
  set_maximize(options.maximize);
  sums_ = &make_state(
      "sum", {.format = options.state_format, .is_signed = false, .initial = options.initial_accumulator_value});
}

Tensor Adagrad::update(const Update& update) {
  const Tensor size = rate_times("decayed_rate", update,
                                 [decay = options_.lr_decay](auto step) { return 1.0 / (1.0 + (step - 1.0) * decay); });
  const Tensor gradient = penalized_gradient(update);
  const Tensor sum = sums_->read(update.index) + gradient * gradient;
  write(*sums_, update, sum);
  return update.value - gradient / (sqrt(sum) + options_.epsilon) * size;
}

}  // namespace tessera::optim
