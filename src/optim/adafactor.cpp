// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/adafactor.h"

#include <algorithm>
#include <cmath>

#include "matrix_dims.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::optim {
namespace {

// Root mean square of each variable of a stack; dims of size 1 remain.
Tensor root_mean_square(const Tensor& x, const Tensor& parameter) {
  const std::vector<int> dims = own_dims(parameter);
  return dims.empty() ? abs(x) : sqrt(mean(square(x), {.dims = dims, .keep_dims = true}));
}

// The dims of a factor with size 1 in place of the dims that it does not have.
Tensor with_dims_of(const Tensor& factor, const Tensor& parameter, const std::vector<int>& missing) {
  Dims dims = parameter.dims();
  for (const int d : missing) at(dims, d) = 1;
  return factor.reshape(std::move(dims));
}

double relative_step_of(double step, bool warmup_init) {
  return std::min(warmup_init ? 1e-6 * step : 1e-2, 1 / std::sqrt(step));
}
Tensor relative_step_of(const Tensor& step, bool warmup_init) {
  return minimum(warmup_init ? 1e-6 * step : 0 * step + 1e-2, rsqrt(step));
}

StateOptions factor_state(const AdafactorOptions& options, std::vector<int> MatrixDims::*dropped) {
  // The factors are few, so they are stored in f32 at least.
  return {.format = options.state_format == StateFormat::kInt8 ? StateFormat::kFull : options.state_format,
          .is_signed = false,
          .without_dims = [dropped](const Tensor& parameter) { return (*matrix_dims(parameter)).*dropped; },
          .has_state = [](const Tensor& parameter) { return matrix_dims(parameter).has_value(); }};
}

}  // namespace

Adafactor::Adafactor(std::vector<Tensor> parameters, const AdafactorOptions& options)
    : Adafactor(std::vector<ParameterGroup>{{std::move(parameters), options.weight_decay}}, options) {}

Adafactor::Adafactor(std::vector<ParameterGroup> groups, const AdafactorOptions& options)
    : Optimizer(std::move(groups), options.learning_rate.value_or(0)), options_(options) {
  require(
      !options.learning_rate || !options.relative_step,
      "Adafactor has both a learning rate and relative_step, which computes the rate from the step: set relative_step "
      "to false, or omit the rate");
  require(options.learning_rate || options.relative_step, "Adafactor without relative_step needs a learning rate");
  require(!options.warmup_init || options.relative_step, "warmup_init needs relative_step");
  require(options.clip_threshold > 0, "clip_threshold must be positive, got {}", options.clip_threshold);
  if (options.beta1) first_ = &make_state("exp_avg", {.format = options.state_format});
  rows_ = &make_state("exp_avg_sq_row", factor_state(options, &MatrixDims::columns));
  columns_ = &make_state("exp_avg_sq_col", factor_state(options, &MatrixDims::rows));
  second_ = &make_state("exp_avg_sq",
                        {.format = options.state_format, .is_signed = false, .has_state = [](const Tensor& parameter) {
                           return !matrix_dims(parameter).has_value();
                         }});
}

std::optional<double> Adafactor::computed_rate(std::int64_t step) const {
  if (!options_.relative_step) return std::nullopt;
  return relative_step_of(static_cast<double>(step), options_.warmup_init);
}

Tensor Adafactor::step_size(const Update& update) {
  Tensor rate_of_step = options_.relative_step
                            ? of_step("relative_step", update.dtype,
                                      [init = options_.warmup_init](auto step) { return relative_step_of(step, init); })
                            : rate(update);
  if (!options_.scale_parameter) return rate_of_step;
  return maximum(root_mean_square(update.value, update.parameter), options_.epsilon2) * rate_of_step;
}

// The gradient divided by the square root of its second moment.
Tensor Adafactor::normalized_gradient(const Update& update) {
  const Tensor decay = of_step("second_decay", update.dtype, [rate = options_.decay_rate](auto step) {
    using std::pow;
    return 1.0 - pow(step, rate);
  });
  const auto moved = [&](StateQuantity& state, const Tensor& value) {
    Tensor out = state.read(update.index) * decay + value * (1.0 - decay);
    write(state, update, out);
    return out;
  };
  const Tensor squares = square(update.gradient) + options_.epsilon1;
  const auto matrix = matrix_dims(update.parameter);
  if (!matrix) return update.gradient * rsqrt(moved(*second_, squares));
  const Tensor rows =
      with_dims_of(moved(*rows_, mean(squares, {.dims = matrix->columns})), update.parameter, matrix->columns);
  const Tensor columns =
      with_dims_of(moved(*columns_, mean(squares, {.dims = matrix->rows})), update.parameter, matrix->rows);
  const Tensor row_factor = rsqrt(rows / mean(rows, {.dims = matrix->rows, .keep_dims = true}));
  return update.gradient * row_factor * rsqrt(columns);
}

Tensor Adafactor::update(const Update& update) {
  const Tensor size = step_size(update);
  Tensor change = normalized_gradient(update);
  change = change / maximum(root_mean_square(change, update.parameter) * (1 / options_.clip_threshold), 1.0) * size;
  if (first_ != nullptr) {
    change = first_->read(update.index) * *options_.beta1 + change * (1 - *options_.beta1);
    write(*first_, update, change);
  }
  Tensor value = update.value;
  if (update.weight_decay != 0) value = value - value * (size * update.weight_decay);
  return value - change;
}

}  // namespace tessera::optim
