// SPDX-License-Identifier: Apache-2.0
// Activation functions, which are declared in pointwise.h.
#include <cmath>
#include <numbers>

#include "tensor/number_types.h"
#include "tensor/wide_elementwise.h"
#include "tessera/frontend/tensor/pointwise.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

Value is_positive(Value v) { return ops::compare(v, constant_like(v, 0), CompareDirection::kGt); }

// log(1 + exp(z)) = log(1 + exp(-|z|)) + max(z, 0), with selects, because the gradients of |z| and of the maximum are 0
// at 0, where the slope is 1/2.
Value softplus_value(Value z) {
  const Value selected = is_positive(z);
  const Value above = ops::select(selected, z, constant_like(z, 0));
  const Value below = ops::select(selected, constant_like(z, 0), z);
  return ops::add(ops::log_plus_one(ops::exp(ops::subtract(below, above))), above);
}

// exp() of the elements that are not selected could overflow, which would make their gradients NaN.
Value elu_value(Value v, double alpha) {
  const Value selected = is_positive(v);
  const Value safe = ops::select(selected, constant_like(v, 0), v);
  return ops::select(selected, v, ops::multiply(ops::exp_minus_one(safe), constant_like(v, alpha)));
}

Value hardsigmoid_value(Value v) {
  const Value zero = constant_like(v, 0), one = constant_like(v, 1);
  const Value between = ops::add(ops::multiply(v, constant_like(v, 1.0 / 6)), constant_like(v, 0.5));
  const Value is_low = ops::compare(v, constant_like(v, -3), CompareDirection::kLe);
  const Value is_high = ops::compare(v, constant_like(v, 3), CompareDirection::kGe);
  return ops::select(is_low, zero, ops::select(is_high, one, between));  // NaN stays NaN
}

}  // namespace

Tensor relu(Operand x) {
  return recorded("relu", x, [](Value v) { return ops::maximum(constant_like(v, 0), v); });
}
Tensor silu(Operand x) {
  return recorded("silu", x, [](Value v) { return ops::multiply(v, ops::logistic(v)); });
}
Tensor gelu(Operand x) {
  return recorded("gelu", x, [](Value v) {
    const Value scaled = ops::multiply(v, constant_like(v, std::numbers::sqrt2 / 2));
    const Value twice_phi = ops::add(ops::erf(scaled), constant_like(v, 1));
    return ops::multiply(ops::multiply(v, constant_like(v, 0.5)), twice_phi);
  });
}
Tensor gelu_new(Operand x) {
  return recorded("gelu_new", x, [](Value v) {
    const Value cube = ops::multiply(ops::multiply(v, v), v);
    const Value inner = ops::add(v, ops::multiply(cube, constant_like(v, 0.044715)));
    const Value t = ops::tanh(ops::multiply(inner, constant_like(v, std::sqrt(2 / std::numbers::pi))));
    return ops::multiply(ops::multiply(v, constant_like(v, 0.5)), ops::add(t, constant_like(v, 1)));
  });
}
Tensor softplus(Operand x, double beta) {
  return recorded("softplus", x, [&](Value v) {
    require(beta > 0, "beta must be positive, got {}", beta);
    if (beta == 1) return softplus_value(v);
    return ops::divide(softplus_value(ops::multiply(v, constant_like(v, beta))), constant_like(v, beta));
  });
}
Tensor leaky_relu(Operand x, double negative_slope) {
  return recorded("leaky_relu", x, [&](Value v) {
    return ops::select(is_positive(v), v, ops::multiply(v, constant_like(v, negative_slope)));
  });
}
Tensor elu(Operand x, double alpha) {
  return recorded("elu", x, [&](Value v) { return elu_value(v, alpha); });
}
Tensor selu(Operand x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return recorded("selu", x, [](Value v) { return ops::multiply(elu_value(v, kAlpha), constant_like(v, kScale)); });
}
Tensor hardsigmoid(Operand x) { return recorded("hardsigmoid", x, hardsigmoid_value); }
Tensor hardswish(Operand x) {
  return recorded("hardswish", x, [](Value v) { return ops::multiply(v, hardsigmoid_value(v)); });
}
Tensor mish(Operand x) {
  return recorded("mish", x, [](Value v) { return ops::multiply(v, ops::tanh(softplus_value(v))); });
}

// ---- with bounds --------------------------------------------------------------------------------------------------------

namespace {

// x between the bounds. The gradient at a bound is 0.
Value between_bounds(Value v, double low, double high) {
  for (const double bound : {low, high}) check_number(bound, v.type());
  const Value least = constant_like(v, low), most = constant_like(v, high);
  const Value is_low = ops::compare(v, least, CompareDirection::kLe);
  const Value is_high = ops::compare(v, most, CompareDirection::kGe);
  return ops::select(is_low, least, ops::select(is_high, most, v));
}

}  // namespace

Tensor hardtanh(Operand x, double low, double high) {
  return recorded("hardtanh", x, [&](Value v) {
    require(low <= high, "the lower bound {} is above the upper bound {}", low, high);
    return between_bounds(v, low, high);
  });
}
Tensor relu6(Operand x) {
  return recorded("relu6", x, [](Value v) { return between_bounds(v, 0, 6); });
}
Tensor threshold(Operand x, double threshold, double value) {
  return recorded("threshold", x, [&](Value v) {
    for (const double number : {threshold, value}) check_number(number, v.type());
    const Value is_small = ops::compare(v, constant_like(v, threshold), CompareDirection::kLe);
    return ops::select(is_small, constant_like(v, value), v);
  });
}

// ---- with exponentials --------------------------------------------------------------------------------------------------

Tensor log_sigmoid(Operand x) {
  return recorded_wide("log_sigmoid", x, [](Value v) { return ops::negate(softplus_value(ops::negate(v))); });
}
Tensor celu(Operand x, double alpha) {
  return recorded_wide("celu", x, [&](Value v) {
    require(alpha != 0, "alpha must not be 0");
    const Value selected = is_positive(v);
    const Value safe = ops::select(selected, constant_like(v, 0), ops::divide(v, constant_like(v, alpha)));
    return ops::select(selected, v, ops::multiply(ops::exp_minus_one(safe), constant_like(v, alpha)));
  });
}

// ---- with several tensors -----------------------------------------------------------------------------------------------

Tensor prelu(Operand x, Operand weight) {
  return recorded("prelu", x, weight, [](Value v, Value w) {
    require(v.type().dtype() == w.type().dtype(), "x is {}, but the weight is {}; convert one with .to()", v.type(),
            w.type());
    const bool is_one = w.type().element_count() == 1;
    const bool has_channels = w.type().ndim() == 1 && v.type().ndim() >= 2 && v.type().dim(1) == w.type().dim(0);
    require(is_one || has_channels, "the weight must have one element, or one for each element of dim 1 of {}, got {}",
            v.type(), w.type());
    const Value slope =
        is_one ? ops::splat(ops::reshape(w, {}), v.type().dims()) : ops::broadcast(w, v.type().dims(), {1});
    return ops::select(is_positive(v), v, ops::multiply(slope, v));
  });
}

Tensor glu(Operand x, int dim) {
  return recorded_wide("glu", x, [&](Value v) {
    const int d = checked_dim(v.type(), dim);
    const std::int64_t size = v.type().dim(d);
    require(size % 2 == 0, "dim {} of {} needs an even size to be halved", d, v.type());
    const Value gate = ops::logistic(ops::slice_dim(v, d, size / 2, size));
    return ops::multiply(ops::slice_dim(v, d, 0, size / 2), gate);
  });
}

}  // namespace tessera
