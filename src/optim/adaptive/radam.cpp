// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/radam.h"

#include <cmath>

#include "adam_parts.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::optim {
namespace {

// The factor of the update by the second moment; 0 while the variance of this moment is infinite. `length` is that of the
// simple moving average which approximates the average of the squares.
double rectification(double length, double longest, double second_correction) {
  if (length <= 5) return 0;
  return std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length) *
                   second_correction);
}
Tensor rectification(const Tensor& length, double longest, const Tensor& second_correction) {
  const Tensor squared = (length - 4.0) * (length - 2.0) * (longest / ((longest - 4) * (longest - 2))) / length;
  return where(length > 5.0, sqrt(maximum(squared, 0.0) * second_correction), 0.0);
}

}  // namespace

RAdam::RAdam(std::vector<Tensor> parameters, const RAdamOptions& options)
    : RAdam(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

RAdam::RAdam(std::vector<ParameterGroup> groups, const RAdamOptions& options)
    : Optimizer(std::move(groups), options.learning_rate), options_(options) {
  check_betas_and_epsilon(options.beta1, options.beta2, options.epsilon);
  set_maximize(options.maximize);
  first_ = &make_state("exp_avg", {.format = options.state_format});
  second_ = &make_state("exp_avg_sq", {.format = options.state_format, .is_signed = false});
}

Tensor RAdam::update(const Update& update) {
  const Tensor size = rate_times("corrected_rate", update,
                                 [beta = options_.beta1](auto step) { return 1.0 / bias_correction(beta, step); });
  const Tensor factor = of_step("rectification", update.dtype, [beta = options_.beta2](auto step) {
    using std::pow;
    const double longest = 2 / (1 - beta) - 1;
    const auto correction = bias_correction(beta, step);
    return rectification(longest - 2.0 * step * pow(beta, step) / correction, longest, correction);
  });
  const bool is_decoupled = options_.decoupled_weight_decay;
  const Tensor value = is_decoupled ? decayed_value(update) : update.value;
  const Tensor gradient = is_decoupled ? update.gradient : penalized_gradient(update);
  const Tensor m = first_->read(update.index) * options_.beta1 + gradient * (1 - options_.beta1);
  const Tensor v = second_->read(update.index) * options_.beta2 + gradient * gradient * (1 - options_.beta2);
  write(*first_, update, m);
  write(*second_, update, v);
  return value - m * size * where(factor > 0.0, factor / (sqrt(v) + options_.epsilon), 1.0);
}

}  // namespace tessera::optim
