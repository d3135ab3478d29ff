// SPDX-License-Identifier: Apache-2.0
// Mathematical functions in pointwise.h: logarithms to a base, trigonometric and hyperbolic functions, rounding, and
// functions that are defined where their formula is not.
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "tensor/mathematics.h"
#include "tensor/wide_elementwise.h"
#include "tessera/frontend/tensor/pointwise.h"
#include "tessera/frontend/tensor/reductions.h"
#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

bool has_infinities(Value v) { return !is_integer(v.type().dtype()) && v.type().dtype() != DType::kPred; }
Value equals(Value v, double number) { return ops::compare(v, constant_like(v, number), CompareDirection::kEq); }
Value is_below(Value v, double number) { return ops::compare(v, constant_like(v, number), CompareDirection::kLt); }
Value is_above(Value v, double number) { return ops::compare(v, constant_like(v, number), CompareDirection::kGt); }

}  // namespace

// ---- powers and logarithms ----------------------------------------------------------------------------------------------

Value root(Value x, double exponent) {
  const Value zero = constant_like(x, 0);
  const Value is_zero = ops::compare(x, zero, CompareDirection::kEq);
  const Value safe = ops::select(is_zero, constant_like(x, 1), x);
  const Value power = exponent == 0.5 ? ops::sqrt(safe) : ops::power(safe, constant_like(x, exponent));
  return ops::select(is_zero, zero, power);
}

namespace {

// log(x) / log(base). Rounding errors could make the logarithm of a power of the base differ from its exponent, so the
// result is corrected there. The correction has no gradient: that of the quotient is the right one.
Value log_to_base(Value x, double base) {
  const Value quotient = ops::divide(ops::log(x), constant_like(x, std::log(base)));
  const Value exponent = ops::round_nearest_even(quotient);
  const Value is_power = ops::compare(ops::power(constant_like(x, base), exponent), x, CompareDirection::kEq);
  const Value is_exact = ops::logical_and(is_power, ops::is_finite(quotient));
  const Value correction = ops::select(is_exact, ops::subtract(exponent, quotient), constant_like(x, 0));
  return ops::add(quotient, stop_gradient(correction));
}

}  // namespace

Tensor log2(Operand x) {
  return recorded_wide("log2", x, [](Value v) { return log_to_base(v, 2); });
}
Tensor log10(Operand x) {
  return recorded_wide("log10", x, [](Value v) { return log_to_base(v, 10); });
}
Tensor exp2(Operand x) {
  return recorded_wide("exp2", x, [](Value v) { return ops::power(constant_like(v, 2), v); });
}

// The formulas of both branches are exact derivatives of every order, also where x = y.
Value logaddexp_value(Value x, Value y) {
  const Value zero = constant_like(x, 0);
  const Value is_same = ops::compare(x, y, CompareDirection::kEq);
  const Value meets = ops::logical_and(is_same, ops::logical_not(ops::is_finite(x)));  // inf - inf is NaN
  const Value a = ops::select(meets, zero, x), b = ops::select(meets, zero, y);
  const Value is_first = ops::compare(a, b, CompareDirection::kGt);
  const Value above = ops::select(is_first, a, b), below = ops::select(is_first, b, a);
  const Value sum = ops::add(above, ops::log_plus_one(ops::exp(ops::subtract(below, above))));
  return ops::select(meets, stop_gradient(x), sum);
}

Tensor logaddexp(Operand x, Operand y) { return recorded_wide("logaddexp", x, y, logaddexp_value); }

Tensor logit(Operand x, std::optional<double> epsilon) {
  return recorded_wide("logit", x, [&](Value v) {
    if (epsilon) {
      require(*epsilon >= 0 && *epsilon <= 0.5, "epsilon must be in [0, 0.5], got {}", *epsilon);
      const auto bound = [&](double number) { return ops::scalar(*v.builder, v.type().dtype(), number); };
      v = ops::clamp(bound(*epsilon), v, bound(1 - *epsilon));
    }
    return ops::subtract(ops::log(v), ops::log_plus_one(ops::negate(v)));
  });
}

// Where x is 0 and log(y) is infinite or NaN, the logarithm is replaced by 0.
Tensor xlogy(Operand x, Operand y) {
  return recorded_wide("xlogy", x, y, [](Value v, Value w) {
    const Value has_no_log =
        ops::logical_or(ops::compare(w, constant_like(w, 0), CompareDirection::kLe), equals(w, kInfinite));
    const Value is_zero = ops::logical_and(equals(v, 0), has_no_log);
    return ops::multiply(v, ops::log(ops::select(is_zero, constant_like(w, 1), w)));
  });
}

// ---- trigonometric and hyperbolic functions -----------------------------------------------------------------------------

Tensor tan(Operand x) { return recorded("tan", x, ops::tan); }
Tensor asin(Operand x) { return recorded("asin", x, ops::asin); }
Tensor acos(Operand x) { return recorded("acos", x, ops::acos); }
Tensor sinh(Operand x) { return recorded("sinh", x, ops::sinh); }
Tensor cosh(Operand x) { return recorded("cosh", x, ops::cosh); }
Tensor asinh(Operand x) { return recorded("asinh", x, ops::asinh); }
Tensor acosh(Operand x) { return recorded("acosh", x, ops::acosh); }
Tensor atanh(Operand x) { return recorded("atanh", x, ops::atanh); }
Tensor atan(Operand x) {
  return recorded("atan", x, [](Value v) { return ops::atan2(v, constant_like(v, 1)); });
}
Tensor atan2(Operand y, Operand x) { return recorded_broadcast("atan2", y, x, ops::atan2); }

Tensor sinc(Operand x) {
  return recorded_wide("sinc", x, [](Value v) {
    const Value angle = ops::multiply(v, constant_like(v, std::acos(-1.0)));
    const Value is_zero = equals(angle, 0), one = constant_like(v, 1);
    const Value safe = ops::select(is_zero, one, angle);
    return ops::select(is_zero, one, ops::divide(ops::sin(safe), safe));
  });
}

namespace {

// The power of two by which squares of numbers of this size are neither too large nor too small: 1, except for very
// large and very small numbers. A multiplication by it does not round.
Value scale_of_squares(Value size) {
  const bool is_double = size.type().dtype() == DType::kF64;
  const int outer = is_double ? 500 : 60, shift = is_double ? 700 : 90;
  const Value small = ops::select(is_below(size, std::ldexp(1.0, -outer)), constant_like(size, std::ldexp(1.0, -shift)),
                                  constant_like(size, 1));
  return ops::select(is_above(size, std::ldexp(1.0, outer)), constant_like(size, std::ldexp(1.0, shift)), small);
}

Value hypot_value(Value x, Value y) {
  const Value a = ops::abs(x), b = ops::abs(y);
  const Value scale = scale_of_squares(ops::maximum(a, b));
  const Value u = ops::divide(x, scale), v = ops::divide(y, scale);
  const Value length = root(ops::add(ops::multiply(u, u), ops::multiply(v, v)), 0.5);
  const Value is_infinite = ops::logical_or(equals(a, kInfinite), equals(b, kInfinite));
  return ops::select(is_infinite, constant_like(x, kInfinite), ops::multiply(length, scale));
}

}  // namespace

Tensor hypot(Operand x, Operand y) { return recorded_wide("hypot", x, y, hypot_value); }

// ---- rounding and division ----------------------------------------------------------------------------------------------

namespace {

Value truncated(Value v) { return ops::select(is_below(v, 0), ops::ceil(v), ops::floor(v)); }

// The remainder has the sign of x, so that the quotient is one too large if the signs of remainder and divisor differ.
Value is_rounded_up(Value rest, Value divisor) {
  const Value differs = ops::compare(is_below(rest, 0), is_below(divisor, 0), CompareDirection::kNe);
  return ops::logical_and(ops::compare(rest, constant_like(rest, 0), CompareDirection::kNe), differs);
}

Value floor_divided_integers(Value x, Value y) {
  const Value quotient = ops::divide(x, y);
  const Value lower = ops::subtract(quotient, constant_like(quotient, 1));
  return ops::select(is_rounded_up(ops::remainder(x, y), y), lower, quotient);
}

// The remainder of a division that rounds down.
Value floor_remainder(Value x, Value y) {
  const Value rest = ops::remainder(x, y);
  return ops::select(is_rounded_up(rest, y), ops::add(rest, y), rest);
}

// As Python's //: x - rest is a multiple of y up to rounding, so that the result does not depend on the rounding of x / y.
Value floor_divided_floats(Value x, Value y) {
  const Value one = constant_like(x, 1);
  const Value rest = ops::remainder(x, y);
  const Value multiple = ops::divide(ops::subtract(x, rest), y);
  const Value quotient = ops::select(is_rounded_up(rest, y), ops::subtract(multiple, one), multiple);
  const Value lower = ops::floor(quotient);
  const Value nearest = ops::select(is_above(ops::subtract(quotient, lower), 0.5), ops::add(lower, one), lower);
  const Value plain = ops::divide(x, y);
  const Value signed_zero = ops::multiply(plain, constant_like(x, 0));
  return ops::select(equals(y, 0), plain, ops::select(equals(quotient, 0), signed_zero, nearest));
}

}  // namespace

Tensor trunc(Operand x) { return recorded("trunc", x, truncated); }
Tensor frac(Operand x) {
  return recorded("frac", x, [](Value v) { return ops::subtract(v, truncated(v)); });
}
Tensor fmod(Operand x, Operand y) {
  check_divisor("fmod", x, y);
  return recorded_broadcast("fmod", x, y, ops::remainder);
}

Tensor remainder(Operand x, Operand y) {
  check_divisor("remainder", x, y);
  return recorded_broadcast("remainder", x, y, [](Value v, Value w) {
    if (is_integer(v.type().dtype())) return floor_remainder(v, w);
    return narrowed(floor_remainder(widened(v), widened(w)), v.type().dtype());
  });
}

Tensor div(Operand x, Operand y, RoundingMode rounding) {
  if (rounding == RoundingMode::kNone) return x / y;
  if (rounding == RoundingMode::kFloor) return floor_divide(x, y);
  check_divisor("div", x, y);
  return recorded_broadcast("div", x, y, [](Value v, Value w) {
    if (is_integer(v.type().dtype())) return ops::divide(v, w);
    return narrowed(truncated(ops::divide(widened(v), widened(w))), v.type().dtype());
  });
}

Tensor floor_divide(Operand x, Operand y) {
  check_divisor("floor_divide", x, y);
  return recorded_broadcast("floor_divide", x, y, [](Value v, Value w) {
    if (is_integer(v.type().dtype())) return floor_divided_integers(v, w);
    return narrowed(stop_gradient(floor_divided_floats(widened(v), widened(w))), v.type().dtype());
  });
}

// ---- interpolation ------------------------------------------------------------------------------------------------------

// Counts from the nearer end, so that both ends are exact.
Value lerp_value(Value start, Value end, Value weight) {
  const Value is_nearer_start = is_below(weight, 0.5);
  const Value from = ops::select(is_nearer_start, start, end);
  const Value share = ops::select(is_nearer_start, weight, ops::subtract(weight, constant_like(weight, 1)));
  return ops::add(from, ops::multiply(share, ops::subtract(end, start)));
}

Tensor lerp(Operand start, Operand end, Operand weight) {
  return recorded_broadcast("lerp", start, end, [&](Value x, Value y) {
    require_float_elements(x.type());
    std::vector<Value> all{x, y};
    if (!weight.is_number()) all.push_back(autocast_value("lerp", weight));
    widen_in_autocast(all);
    const DType dtype = all[0].type().dtype();
    require(all.back().type().dtype() == dtype, "the weight is {}, but the ends are {}; convert one with .to()",
            all.back().type(), all[0].type());
    const Dims dims = broadcast_dims(all[0].type().dims(), all.back().type().dims());
    for (Value& v : all) v = broadcast_value(widened(v), dims);
    if (weight.is_number()) all.push_back(constant_like(all[0], weight.number()));
    return narrowed(lerp_value(all[0], all[1], all[2]), dtype);
  });
}

// ---- infinities and NaN -------------------------------------------------------------------------------------------------

namespace {

double largest_finite(DType dtype) {
  if (dtype == DType::kF16) return 65504;
  if (dtype == DType::kBF16) return std::ldexp(255, 120);
  return dtype == DType::kF32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}

Tensor tested(std::string_view name, const Operand& x, Value (*test)(Value)) {
  return recorded(name, x, [&](Value v) {
    return has_infinities(v) ? test(v) : trace().full(v.type().with_dtype(DType::kPred), 0);
  });
}

}  // namespace

Tensor isinf(Operand x) {
  return tested("isinf", x, [](Value v) { return equals(ops::abs(v), kInfinite); });
}
Tensor isposinf(Operand x) {
  return tested("isposinf", x, [](Value v) { return equals(v, kInfinite); });
}
Tensor isneginf(Operand x) {
  return tested("isneginf", x, [](Value v) { return equals(v, -kInfinite); });
}

Tensor heaviside(Operand x, Operand at_zero) {
  return recorded_broadcast("heaviside", x, at_zero, [](Value v, Value w) {
    return ops::select(equals(v, 0), w, ops::convert(is_above(v, 0), v.type().dtype()));
  });
}

Tensor isclose(Operand x, Operand y, CloseOptions options) {
  return recorded_broadcast("isclose", x, y, [&](Value v, Value w) {
    require(options.rtol >= 0 && options.atol >= 0, "the tolerances must not be negative, got {} and {}", options.rtol,
            options.atol);
    const DType dtype = is_float(v.type().dtype()) ? v.type().dtype() : DType::kF64;
    v = narrowed(widened(v), dtype == DType::kF64 ? dtype : DType::kF32);
    w = narrowed(widened(w), v.type().dtype());
    const Value distance = ops::abs(ops::subtract(v, w));
    const Value allowed =
        ops::add(constant_like(w, options.atol), ops::multiply(constant_like(w, options.rtol), ops::abs(w)));
    const Value near =
        ops::logical_and(ops::is_finite(distance), ops::compare(distance, allowed, CompareDirection::kLe));
    const Value close = ops::logical_or(near, ops::compare(v, w, CompareDirection::kEq));
    if (!options.equal_nan) return close;
    return ops::logical_or(
        close, ops::logical_and(ops::compare(v, v, CompareDirection::kNe), ops::compare(w, w, CompareDirection::kNe)));
  });
}

bool allclose(Operand x, Operand y, CloseOptions options) {
  const auto where = x.where();
  return all(isclose(std::move(x), std::move(y), options), {}).item(where) != 0;
}

bool equal(const Tensor& x, const Tensor& y, std::source_location where) {
  if (x.dims() != y.dims()) return false;
  return all(Operand(x, where) == Operand(y, where), {}).item(where) != 0;
}

Tensor nan_to_num(Operand x, NanToNumOptions options) {
  return recorded("nan_to_num", x, [&](Value v) {
    if (!has_infinities(v)) return v;
    const double largest = largest_finite(v.type().dtype());
    const Value is_nan = ops::compare(v, v, CompareDirection::kNe);
    Value out = ops::select(is_nan, constant_like(v, options.nan), v);
    out = ops::select(equals(v, kInfinite), constant_like(v, options.posinf.value_or(largest)), out);
    return ops::select(equals(v, -kInfinite), constant_like(v, options.neginf.value_or(-largest)), out);
  });
}

}  // namespace tessera
