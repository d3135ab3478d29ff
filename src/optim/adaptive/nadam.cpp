// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/nadam.h"

#include <cmath>

#include "adam_parts.h"
#include "matrix_dims.h"
#include "tessera/base/error.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::optim {
namespace {

// beta1 (1 - 0.96^(t decay) / 2)
template <class T>
T momentum_of(const NAdamOptions& options, const T& step) {
  using std::pow;
  return options.beta1 * (1.0 - 0.5 * pow(0.96, step * options.momentum_decay));
}

// A number for each variable of a stack, with the dims of the parameter.
Tensor for_parameter(const Tensor& numbers, const Tensor& parameter) {
  Dims dims = parameter.dims();
  for (const int d : own_dims(parameter)) at(dims, d) = 1;
  return numbers.reshape(std::move(dims));
}

}  // namespace

NAdam::NAdam(std::vector<Tensor> parameters, const NAdamOptions& options)
    : NAdam(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

NAdam::NAdam(std::vector<ParameterGroup> groups, const NAdamOptions& options)
    : Optimizer(std::move(groups), options.learning_rate), options_(options) {
  check_betas_and_epsilon(options.beta1, options.beta2, options.epsilon);
  require(options.momentum_decay >= 0, "momentum_decay must not be negative, got {}", options.momentum_decay);
  set_maximize(options.maximize);
  // A state, because the steps that GradScaler skips do not count.
  products_ = &make_state("mu_product", {.is_signed = false, .initial = 1, .without_dims = own_dims});
  first_ = &make_state("exp_avg", {.format = options.state_format});
  second_ = &make_state("exp_avg_sq", {.format = options.state_format, .is_signed = false});
}

Tensor NAdam::update(const Update& update) {
  const Tensor mu = of_step("mu", update.dtype, [options = options_](auto step) { return momentum_of(options, step); });
  const Tensor next_mu =
      of_step("next_mu", update.dtype, [options = options_](auto step) { return momentum_of(options, step + 1.0); });
  const Tensor second_factor = of_step("second_factor", update.dtype, [beta = options_.beta2](auto step) {
    using std::sqrt;
    return 1.0 / sqrt(bias_correction(beta, step));
  });
  const bool is_decoupled = options_.decoupled_weight_decay;
  const Tensor value = is_decoupled ? decayed_value(update) : update.value;
  const Tensor gradient = is_decoupled ? update.gradient : penalized_gradient(update);
  const Tensor product = products_->read(update.index) * mu;
  const Tensor m = first_->read(update.index) * options_.beta1 + gradient * (1 - options_.beta1);
  const Tensor v = second_->read(update.index) * options_.beta2 + gradient * gradient * (1 - options_.beta2);
  write(*products_, update, product);
  write(*first_, update, m);
  write(*second_, update, v);
  const Tensor of_gradient = for_parameter((1.0 - mu) / (1.0 - product), update.parameter);
  const Tensor of_average = for_parameter(next_mu / (1.0 - product * next_mu), update.parameter);
  const Tensor direction = gradient * of_gradient + m * of_average;
  return value - direction / (sqrt(v) * second_factor + options_.epsilon) * rate(update);
}

}  // namespace tessera::optim
