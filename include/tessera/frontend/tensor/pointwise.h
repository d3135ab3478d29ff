// SPDX-License-Identifier: Apache-2.0
// Elementwise operators and functions. Operands broadcast as in NumPy. A number takes the element type of the tensor;
// error if an integer type cannot represent it. Arithmetic of a pred tensor with a number is an error. Tensors of
// different element types are an error; convert with .to().
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

Tensor operator+(Operand lhs, Operand rhs);
Tensor operator-(Operand lhs, Operand rhs);
Tensor operator*(Operand lhs, Operand rhs);
/// The quotient. That of integers has the type f32, and the number may be a fraction. div() and floor_divide() return
/// integers.
Tensor operator/(Operand lhs, Operand rhs);
/// remainder(lhs, rhs).
Tensor operator%(Operand lhs, Operand rhs);
Tensor operator-(Operand x);
Tensor operator<(Operand lhs, Operand rhs);
Tensor operator<=(Operand lhs, Operand rhs);
Tensor operator>(Operand lhs, Operand rhs);
Tensor operator>=(Operand lhs, Operand rhs);
/// Compares elementwise, as all comparison operators do.
Tensor operator==(Operand lhs, Operand rhs);
Tensor operator!=(Operand lhs, Operand rhs);
Tensor operator&&(Operand lhs, Operand rhs);
Tensor operator||(Operand lhs, Operand rhs);
Tensor operator!(Operand x);
/// Logical operations of pred tensors, and bitwise operations of integers.
Tensor operator&(Operand lhs, Operand rhs);
Tensor operator|(Operand lhs, Operand rhs);
Tensor operator^(Operand lhs, Operand rhs);
Tensor operator~(Operand x);
/// The tensor itself.
Tensor operator+(Operand x);

/// `x += y` is `x = x + y`: the handle x then refers to a new value. Other handles keep the old value. Error if x is a
/// variable with requires_grad, because the variable would not change: write `x.assign(x + y)`.
Tensor& operator+=(Tensor& x, Operand y);
Tensor& operator-=(Tensor& x, Operand y);
Tensor& operator*=(Tensor& x, Operand y);
/// Error if x has integers, because the quotient is f32.
Tensor& operator/=(Tensor& x, Operand y);
Tensor& operator%=(Tensor& x, Operand y);
Tensor& operator&=(Tensor& x, Operand y);
Tensor& operator|=(Tensor& x, Operand y);
Tensor& operator^=(Tensor& x, Operand y);

/// The larger operand. Equal operands share the gradient equally.
Tensor maximum(Operand lhs, Operand rhs);
/// The smaller operand. Equal operands share the gradient equally.
Tensor minimum(Operand lhs, Operand rhs);
/// lhs to the power rhs. Error for integers to a negative number.
Tensor pow(Operand lhs, Operand rhs);
/// How div() rounds a quotient: not at all, towards 0 (as C++ divides integers), or down.
enum class RoundingMode : std::uint8_t { kNone, kTrunc, kFloor };
/// lhs / rhs, rounded. Rounded quotients of integers have the type of the operands; their division by the number 0 is
/// an error. The gradient of a rounded quotient is 0.
Tensor div(Operand lhs, Operand rhs, RoundingMode rounding = RoundingMode::kNone);
/// lhs - q * rhs, where q is lhs / rhs rounded down. Error if integers are divided by the number 0, as in fmod and
/// floor_divide. The result has the sign of rhs, as with Python's `%`.
Tensor remainder(Operand lhs, Operand rhs);
/// lhs - q * rhs, where q is lhs / rhs rounded towards 0. The result has the sign of lhs, as with C's `%`.
Tensor fmod(Operand lhs, Operand rhs);
/// lhs / rhs, rounded down. Computed as Python's `//`: floor_divide(1, 0.1) is 9. The gradient is 0.
Tensor floor_divide(Operand lhs, Operand rhs);
Tensor exp(Operand x);
/// exp(x) - 1, accurate for small x.
Tensor expm1(Operand x);
Tensor log(Operand x);
/// log(1 + x), accurate for small x.
Tensor log1p(Operand x);
/// The logarithms to base 2 and 10. Those of powers of the base are exact.
Tensor log2(Operand x);
Tensor log10(Operand x);
/// 2^x.
Tensor exp2(Operand x);
/// log(exp(x) + exp(y)), without overflow. Where both are the same infinity, this is the result, and the gradient is 0.
Tensor logaddexp(Operand x, Operand y);
/// x * log(y), and 0 where x is 0, unless y is NaN. Where x is 0 and y is not a positive finite number, the gradient is
/// 0.
Tensor xlogy(Operand x, Operand y);
/// log(x / (1 - x)). With epsilon, x is first clamped to [epsilon, 1 - epsilon].
Tensor logit(Operand x, std::optional<double> epsilon = {});
Tensor sqrt(Operand x);
/// 1 / sqrt(x).
Tensor rsqrt(Operand x);
/// sqrt(x^2 + y^2), without overflow. The gradient at (0, 0) is 0.
Tensor hypot(Operand x, Operand y);
/// 1 / x. That of integers has the type f32.
Tensor reciprocal(Operand x);
Tensor tanh(Operand x);
Tensor sin(Operand x);
Tensor cos(Operand x);
Tensor tan(Operand x);
Tensor asin(Operand x);
Tensor acos(Operand x);
Tensor atan(Operand x);
/// The angle of the point (x, y) in [-pi, pi]. The gradient at (0, 0) is 0.
Tensor atan2(Operand y, Operand x);
Tensor sinh(Operand x);
Tensor cosh(Operand x);
Tensor asinh(Operand x);
Tensor acosh(Operand x);
Tensor atanh(Operand x);
/// sin(pi x) / (pi x), and 1 at 0, where the gradient is 0.
Tensor sinc(Operand x);
Tensor erf(Operand x);
Tensor abs(Operand x);
/// -1, 0 or 1: the sign of x.
Tensor sign(Operand x);
Tensor square(Operand x);
Tensor floor(Operand x);
Tensor ceil(Operand x);
/// The nearest integer; ties round to even.
Tensor round(Operand x);
/// x rounded towards 0.
Tensor trunc(Operand x);
/// x - trunc(x).
Tensor frac(Operand x);
/// start + weight * (end - start); exactly `end` where the weight is 1. The weight is a number or a tensor.
Tensor lerp(Operand start, Operand end, Operand weight);
/// 1 / (1 + exp(-x)).
Tensor sigmoid(Operand x);
/// max(x, 0). The gradient at 0 is 0.
Tensor relu(Operand x);
/// x * Phi(x), where Phi is the distribution function of the standard normal distribution. Computed with erf.
Tensor gelu(Operand x);
/// The approximation of gelu() by tanh, as in GPT-2.
Tensor gelu_new(Operand x);
/// x * sigmoid(x).
Tensor silu(Operand x);
/// log(1 + exp(beta * x)) / beta, without overflow.
Tensor softplus(Operand x, double beta = 1);

/// x where x > 0, else negative_slope * x.
Tensor leaky_relu(Operand x, double negative_slope = 0.01);
/// x where x > 0, else alpha * (exp(x) - 1).
Tensor elu(Operand x, double alpha = 1);
/// elu() with the alpha and the factor of Klambauer et al. (2017), which keep mean 0 and variance 1.
Tensor selu(Operand x);
/// 0 below -3, 1 above 3, and x / 6 + 1/2 between them. The gradient at -3 and 3 is 0.
Tensor hardsigmoid(Operand x);
/// x * hardsigmoid(x).
Tensor hardswish(Operand x);
/// x * tanh(softplus(x)).
Tensor mish(Operand x);
/// log(sigmoid(x)), without overflow.
Tensor log_sigmoid(Operand x);
/// x where x > 0, else alpha * (exp(x / alpha) - 1).
Tensor celu(Operand x, double alpha = 1);
/// x between `low` and `high`. The gradient is 0 at the bounds, in contrast to clamp().
Tensor hardtanh(Operand x, double low = -1, double high = 1);
/// hardtanh(x, 0, 6).
Tensor relu6(Operand x);
/// x where x > threshold, else `value`. NaN stays NaN.
Tensor threshold(Operand x, double threshold, double value);
/// x where x > 0, else weight * x. The weight has one element, or one for each element of dim 1 of x.
Tensor prelu(Operand x, Operand weight);
/// a * sigmoid(b), where a and b are the halves of x along a dim.
Tensor glu(Operand x, int dim = -1);

/// The bounds of clamp. A bound without a value has no effect.
struct ClampOptions {
  std::optional<double> min{};
  std::optional<double> max{};
};
/// The nearest number between the bounds. Where the bounds do not change x, the gradient passes; otherwise it is 0.
Tensor clamp(Operand x, ClampOptions bounds);
inline Tensor clamp(Operand x, double low, double high) { return clamp(x, ClampOptions{low, high}); }
/// The same as clamp.
inline Tensor clip(Operand x, ClampOptions bounds) { return clamp(x, bounds); }
inline Tensor clip(Operand x, double low, double high) { return clamp(x, ClampOptions{low, high}); }

/// The result is pred. Numbers count as true if they are not 0.
Tensor logical_and(Operand lhs, Operand rhs);
Tensor logical_or(Operand lhs, Operand rhs);
Tensor logical_xor(Operand lhs, Operand rhs);
Tensor logical_not(Operand x);
Tensor isnan(Operand x);
Tensor isfinite(Operand x);
Tensor isinf(Operand x);
Tensor isposinf(Operand x);
Tensor isneginf(Operand x);

/// 0 where x < 0 or x is NaN, 1 where x > 0, and `at_zero` where x is 0.
Tensor heaviside(Operand x, Operand at_zero);

/// The tolerances of isclose and allclose.
struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;
};
/// pred: |x - y| <= atol + rtol |y|, or x == y. Infinities are close only to themselves, and NaN to NaN with
/// `equal_nan`. Integers are compared as f64.
Tensor isclose(Operand x, Operand y, CloseOptions options = {});
/// Tells whether all elements are close. Reads the result, so all ranks must call it.
bool allclose(Operand x, Operand y, CloseOptions options = {});
/// Tells whether two tensors have the same shape and equal elements. Reads the result, so all ranks must call it.
bool equal(const Tensor& x, const Tensor& y, std::source_location where = std::source_location::current());

/// The replacements of nan_to_num. Infinities without one become the largest and the smallest finite number of the
/// type.
struct NanToNumOptions {
  double nan = 0;
  std::optional<double> posinf{};
  std::optional<double> neginf{};
};
/// Replaces NaN and infinities. Their gradient is 0.
Tensor nan_to_num(Operand x, NanToNumOptions options = {});

/// Elements of `on_true` where `predicate` is true, and of `on_false` elsewhere.
Tensor where(Operand predicate, Operand on_true, Operand on_false);
/// `value` where `mask` holds, else x. `mask` is pred and broadcasts to x; `value` is a number or a scalar.
Tensor masked_fill(Operand x, Operand mask, Operand value);
/// Selects one of two computed values by a scalar predicate. Differentiable.
Tensor cond(Operand predicate, Operand on_true, Operand on_false);

}  // namespace tessera
