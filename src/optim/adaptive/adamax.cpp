// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/adamax.h"

#include "adam_parts.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::optim {

Adamax::Adamax(std::vector<Tensor> parameters, const AdamaxOptions& options)
    : Adamax(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

Adamax::Adamax(std::vector<ParameterGroup> groups, const AdamaxOptions& options)
    : Optimizer(std::move(groups), options.learning_rate), options_(options) {
  check_betas_and_epsilon(options.beta1, options.beta2, options.epsilon);
  set_maximize(options.maximize);
  first_ = &make_state("exp_avg", {.format = options.state_format});
  largest_ = &make_state("exp_inf", {.format = options.state_format, .is_signed = false});
}

Tensor Adamax::update(const Update& update) {
  const Tensor size = rate_times("corrected_rate", update,
                                 [beta = options_.beta1](auto step) { return 1.0 / bias_correction(beta, step); });
  const Tensor gradient = penalized_gradient(update);
  const Tensor m = first_->read(update.index) * options_.beta1 + gradient * (1 - options_.beta1);
  const Tensor u = maximum(largest_->read(update.index) * options_.beta2, abs(gradient) + options_.epsilon);
  write(*first_, update, m);
  write(*largest_, update, u);
  return update.value - m / u * size;
}

}  // namespace tessera::optim
