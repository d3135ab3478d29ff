// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "adam_parts.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/optim/optimizer.h"

namespace tessera::optim {

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options)
    : AdamW(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options)
    : Optimizer(std::move(groups), options.learning_rate), options_(options) {
  check_betas_and_epsilon(options.beta1, options.beta2, options.epsilon);
  set_maximize(options.maximize);
  first_ = &make_state("exp_avg", {.format = options.state_format});
  second_ = &make_state("exp_avg_sq", {.format = options.state_format, .is_signed = false});
  if (options.amsgrad) largest_ = &make_state("max_exp_avg_sq", {.format = options.state_format, .is_signed = false});
}

Tensor AdamW::update(const Update& update) {
  const Tensor step_size = rate_times("corrected_rate", update,
                                      [beta = options_.beta1](auto step) { return 1.0 / bias_correction(beta, step); });
  const Tensor second_factor = of_step("second_factor", update.dtype, [beta = options_.beta2](auto step) {
    using std::sqrt;
    return 1.0 / sqrt(bias_correction(beta, step));
  });
  const Tensor value = is_decoupled() ? decayed_value(update) : update.value;
  const Tensor gradient = is_decoupled() ? update.gradient : penalized_gradient(update);
  const Tensor m = first_->read(update.index) * options_.beta1 + gradient * (1 - options_.beta1);
  const Tensor v = second_->read(update.index) * options_.beta2 + gradient * gradient * (1 - options_.beta2);
  write(*first_, update, m);
  write(*second_, update, v);
  Tensor largest = v;
  if (largest_ != nullptr) {
    largest = maximum(largest_->read(update.index), v);
    write(*largest_, update, largest);
  }
  return value - m / (sqrt(largest) * second_factor + options_.epsilon) * step_size;
}

}  // namespace tessera::optim
