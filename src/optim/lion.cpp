// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/lion.h"

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::optim {

Lion::Lion(std::vector<Tensor> parameters, const LionOptions& options)
    : Lion(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

Lion::Lion(std::vector<ParameterGroup> groups, const LionOptions& options)
    : Optimizer(std::move(groups), options.learning_rate), options_(options) {
  for (const double beta : {options.beta1, options.beta2})
    require(beta >= 0 && beta < 1, "betas must be in [0, 1), got {}", beta);
  momentum_ = &make_state("exp_avg", {.format = options.state_format});
}

Tensor Lion::update(const Update& update) {
  const Tensor momentum = momentum_->read(update.index);
  const Tensor direction = sign(momentum * options_.beta1 + update.gradient * (1 - options_.beta1));
  write(*momentum_, update, momentum * options_.beta2 + update.gradient * (1 - options_.beta2));
  return decayed_value(update) - direction * rate(update);
}

}  // namespace tessera::optim
