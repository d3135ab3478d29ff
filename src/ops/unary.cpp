// SPDX-License-Identifier: Apache-2.0
// Elementwise ops of one operand. A row consists of its name, its scalar functions by class of elements, gradient,
// linearity.
#include <bit>
#include <cmath>
#include <limits>

#include "elementwise_support.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace rows {
namespace {

using i64 = std::int64_t;
using u64 = std::uint64_t;

// ---- scalar functions: on the widest type of the class; `bits` is the element's width ------------------------------

using c128 = Complex128;

double sign_of(double x) { return std::isnan(x) || x == 0 ? x : std::copysign(1.0, x); }
c128 sign_of(c128 x) { return x == c128(0) ? x : x / std::abs(x); }
// exp(a) - 1 without loss of precision near 0: exp(re) cos(im) - 1 = expm1(re) cos(im) - 2 sin(im/2)^2.
c128 expm1_of(c128 x) {
  const double half = std::sin(x.imag() / 2);
  return {std::expm1(x.real()) * std::cos(x.imag()) - 2 * half * half, std::exp(x.real()) * std::sin(x.imag())};
}
c128 log1p_of(c128 x) {
  const double r = x.real();
  const double i = x.imag();
  return {0.5 * std::log1p(r * (2 + r) + i * i), std::atan2(i, 1 + r)};
}

constexpr UnaryScalar kNegateScalar{.real = [](double x) { return -x; },
                                    .integer = [](u64 x, int) { return u64{0} - x; },
                                    .complex = [](c128 x) { return -x; }};
constexpr UnaryScalar kAbsScalar{.real = [](double x) { return std::fabs(x); },
                                 .integer = [](u64 x, int) { return static_cast<i64>(x) < 0 ? u64{0} - x : x; },
                                 .natural = [](u64 x, int) { return x; }};
constexpr UnaryScalar kSignScalar{
    .real = sign_of,
    .integer = [](u64 x, int) { return x == 0 ? u64{0} : (static_cast<i64>(x) < 0 ? ~u64{0} : u64{1}); },
    .natural = [](u64 x, int) { return u64{x != 0}; },
    .complex = sign_of};
constexpr UnaryScalar kNotScalar{.integer = [](u64 x, int) { return ~x; }, .pred = [](bool x) { return !x; }};
constexpr UnaryScalar kPopcntScalar{
    .integer = [](u64 x, int bits) { return static_cast<u64>(std::popcount(low_bits(x, bits))); }};
constexpr UnaryScalar kCountLeadingZerosScalar{
    .integer = [](u64 x, int bits) { return static_cast<u64>(std::countl_zero(low_bits(x, bits)) - (64 - bits)); }};

constexpr UnaryScalar kExpScalar{.real = [](double x) { return std::exp(x); },
                                 .complex = [](c128 x) { return std::exp(x); }};
constexpr UnaryScalar kExpm1Scalar{.real = [](double x) { return std::expm1(x); },
                                   .complex = [](c128 x) { return expm1_of(x); }};
constexpr UnaryScalar kLogScalar{.real = [](double x) { return std::log(x); },
                                 .complex = [](c128 x) { return std::log(x); }};
constexpr UnaryScalar kLog1pScalar{.real = [](double x) { return std::log1p(x); },
                                   .complex = [](c128 x) { return log1p_of(x); }};
constexpr UnaryScalar kSqrtScalar{.real = [](double x) { return std::sqrt(x); },
                                  .complex = [](c128 x) { return std::sqrt(x); }};
constexpr UnaryScalar kRsqrtScalar{.real = [](double x) { return 1 / std::sqrt(x); },
                                   .complex = [](c128 x) { return 1.0 / std::sqrt(x); }};
constexpr UnaryScalar kCbrtScalar{.real = [](double x) { return std::cbrt(x); },
                                  .complex = [](c128 x) { return std::pow(x, 1.0 / 3); }};
constexpr UnaryScalar kTanhScalar{.real = [](double x) { return std::tanh(x); },
                                  .complex = [](c128 x) { return std::tanh(x); }};
constexpr UnaryScalar kTanScalar{.real = [](double x) { return std::tan(x); },
                                 .complex = [](c128 x) { return std::tan(x); }};
constexpr UnaryScalar kSinScalar{.real = [](double x) { return std::sin(x); },
                                 .complex = [](c128 x) { return std::sin(x); }};
constexpr UnaryScalar kCosScalar{.real = [](double x) { return std::cos(x); },
                                 .complex = [](c128 x) { return std::cos(x); }};
constexpr UnaryScalar kLogisticScalar{.real = [](double x) { return std::isnan(x) ? x : 1 / (1 + std::exp(-x)); },
                                      .complex = [](c128 x) { return 1.0 / (1.0 + std::exp(-x)); }};
constexpr UnaryScalar kErfScalar{.real = [](double x) { return std::erf(x); }};
constexpr UnaryScalar kAcosScalar{.real = [](double x) { return std::acos(x); },
                                  .complex = [](c128 x) { return std::acos(x); }};
constexpr UnaryScalar kAcoshScalar{.real = [](double x) { return std::acosh(x); },
                                   .complex = [](c128 x) { return std::acosh(x); }};
constexpr UnaryScalar kAsinScalar{.real = [](double x) { return std::asin(x); },
                                  .complex = [](c128 x) { return std::asin(x); }};
constexpr UnaryScalar kAsinhScalar{.real = [](double x) { return std::asinh(x); },
                                   .complex = [](c128 x) { return std::asinh(x); }};
constexpr UnaryScalar kAtanhScalar{.real = [](double x) { return std::atanh(x); },
                                   .complex = [](c128 x) { return std::atanh(x); }};
constexpr UnaryScalar kCoshScalar{.real = [](double x) { return std::cosh(x); },
                                  .complex = [](c128 x) { return std::cosh(x); }};
constexpr UnaryScalar kSinhScalar{.real = [](double x) { return std::sinh(x); },
                                  .complex = [](c128 x) { return std::sinh(x); }};
constexpr UnaryScalar kFloorScalar{.real = [](double x) { return std::floor(x); }};
constexpr UnaryScalar kCeilScalar{.real = [](double x) { return std::ceil(x); }};
constexpr UnaryScalar kRoundEvenScalar{.real = [](double x) { return std::nearbyint(x); }};
constexpr UnaryScalar kRoundAfzScalar{.real = [](double x) { return std::round(x); }};

// ---- gradients: the factor on d_result; y is the result -------------------------------------------------------------

using Values = std::vector<Value>;

Values scaled(GradientContext& c, Value factor) { return {ops::multiply(c.d_result(), factor)}; }
Value one_minus_square(Value y) { return ops::subtract(full_like(y, 1), ops::multiply(y, y)); }

Values d_negate(GradientContext& c) { return {ops::negate(c.d_result())}; }
Values d_abs(GradientContext& c) { return scaled(c, ops::sign(c.operand(0))); }
Values d_exp(GradientContext& c) { return scaled(c, c.result); }
Values d_expm1(GradientContext& c) { return scaled(c, ops::add(c.result, full_like(c.result, 1))); }
Values d_log(GradientContext& c) { return {ops::divide(c.d_result(), c.operand(0))}; }
Values d_log1p(GradientContext& c) {
  return {ops::divide(c.d_result(), ops::add(c.operand(0), full_like(c.result, 1)))};
}
Values d_sqrt(GradientContext& c) { return scaled(c, ops::divide(full_like(c.result, 0.5), c.result)); }
Values d_rsqrt(GradientContext& c) {
  return scaled(c, ops::multiply(full_like(c.result, -0.5), ops::divide(c.result, c.operand(0))));
}
Values d_cbrt(GradientContext& c) {
  return {ops::divide(c.d_result(), ops::multiply(full_like(c.result, 3), ops::multiply(c.result, c.result)))};
}
Values d_tanh(GradientContext& c) { return scaled(c, one_minus_square(c.result)); }
Values d_tan(GradientContext& c) {
  return scaled(c, ops::add(full_like(c.result, 1), ops::multiply(c.result, c.result)));
}
Values d_sin(GradientContext& c) { return scaled(c, ops::cos(c.operand(0))); }
Values d_cos(GradientContext& c) { return scaled(c, ops::negate(ops::sin(c.operand(0)))); }
Values d_logistic(GradientContext& c) {
  return scaled(c, ops::multiply(c.result, ops::subtract(full_like(c.result, 1), c.result)));
}
Values d_erf(GradientContext& c) {
  const Value x = c.operand(0);
  const Value slope = ops::exp(ops::negate(ops::multiply(x, x)));
  return scaled(c, ops::multiply(full_like(x, 1.1283791670955126), slope));  // 2 / sqrt(pi)
}

// 1 / sqrt(sign * x^2 + one)
Value inverse_root(Value x, double sign, double one) {
  return ops::rsqrt(ops::add(ops::multiply(full_like(x, sign), ops::multiply(x, x)), full_like(x, one)));
}
Values d_acos(GradientContext& c) { return scaled(c, ops::negate(inverse_root(c.operand(0), -1, 1))); }
Values d_asin(GradientContext& c) { return scaled(c, inverse_root(c.operand(0), -1, 1)); }
Values d_acosh(GradientContext& c) { return scaled(c, inverse_root(c.operand(0), 1, -1)); }
Values d_asinh(GradientContext& c) { return scaled(c, inverse_root(c.operand(0), 1, 1)); }
Values d_atanh(GradientContext& c) { return {ops::divide(c.d_result(), one_minus_square(c.operand(0)))}; }
Values d_cosh(GradientContext& c) { return scaled(c, ops::sinh(c.operand(0))); }
Values d_sinh(GradientContext& c) { return scaled(c, ops::cosh(c.operand(0))); }

// ---- abs: real of complex elements ----------------------------------------------------------------------------------

Type infer_abs(const OpView& view) {
  const Type& x = array_operand(view, 0);
  if (!is_complex(x.dtype())) return infer_unary(view, kAbsScalar);
  return declared_or(view, x.with_dtype(real_dtype(x.dtype())));
}
Literal evaluate_abs(const EvalContext& context) {
  const Literal& x = context.operands[0];
  if (!is_complex(x.type().dtype())) return evaluate_unary(context, kAbsScalar);
  Literal out(context.view.result);
  visit_any_dtype(x.type().dtype(), [&]<class T>() {
    if constexpr (is_complex(kDTypeOf<T>)) {
      const auto from = x.data<T>();
      auto to = out.mutable_data<typename T::value_type>();
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::hypot(from[i].real(), from[i].imag());
    }
  });
  return out;
}
OpDef abs_row() {
  OpDef row = unary<kAbsScalar>("abs", d_abs);
  row.infer = infer_abs;
  row.evaluate = evaluate_abs;
  return row;
}

// ---- is-finite: the only one whose result is pred -------------------------------------------------------------------

Type infer_is_finite(const OpView& view) {
  const Type& x = array_operand(view, 0);
  if (!is_float(x.dtype())) fail("takes floating-point elements, got {}", x.str());
  return declared_or(view, x.with_dtype(DType::kPred));
}
Literal evaluate_is_finite(const EvalContext& context) {
  const Literal& x = context.operands[0];
  Literal out(context.view.result);
  auto data = out.mutable_data<bool>();
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::isfinite(element_as_double(x, static_cast<i64>(i)));
  return out;
}

}  // namespace

const OpDef kNegate = inexpensive(unary<kNegateScalar>("negate", d_negate, linear));
const OpDef kAbs = inexpensive(abs_row());
const OpDef kSign = inexpensive(unary<kSignScalar>("sign", GradientKind::kZero));
const OpDef kNot = inexpensive(unary<kNotScalar>("not", GradientKind::kZero));
const OpDef kExponential = unary<kExpScalar>("exponential", d_exp, monotone);
const OpDef kExponentialMinusOne = unary<kExpm1Scalar>("exponential-minus-one", d_expm1, monotone);
const OpDef kLog = unary<kLogScalar>("log", d_log);
const OpDef kLogPlusOne = unary<kLog1pScalar>("log-plus-one", d_log1p);
const OpDef kSqrt = unary<kSqrtScalar>("sqrt", d_sqrt);
const OpDef kRsqrt = unary<kRsqrtScalar>("rsqrt", d_rsqrt);
const OpDef kCbrt = unary<kCbrtScalar>("cbrt", d_cbrt, monotone);
const OpDef kTanh = unary<kTanhScalar>("tanh", d_tanh, monotone);
const OpDef kTan = unary<kTanScalar>("tan", d_tan);
const OpDef kSine = unary<kSinScalar>("sine", d_sin);
const OpDef kCosine = unary<kCosScalar>("cosine", d_cos);
const OpDef kLogistic = unary<kLogisticScalar>("logistic", d_logistic, monotone);
const OpDef kErf = unary<kErfScalar>("erf", d_erf, monotone);
const OpDef kAcos = unary<kAcosScalar>("acos", d_acos);
const OpDef kAcosh = unary<kAcoshScalar>("acosh", d_acosh);
const OpDef kAsin = unary<kAsinScalar>("asin", d_asin);
const OpDef kAsinh = unary<kAsinhScalar>("asinh", d_asinh, monotone);
const OpDef kAtanh = unary<kAtanhScalar>("atanh", d_atanh);
const OpDef kCosh = unary<kCoshScalar>("cosh", d_cosh);
const OpDef kSinh = unary<kSinhScalar>("sinh", d_sinh, monotone);
const OpDef kFloor = unary<kFloorScalar>("floor", GradientKind::kZero, monotone);
const OpDef kCeil = unary<kCeilScalar>("ceil", GradientKind::kZero, monotone);
const OpDef kRoundNearestEven = unary<kRoundEvenScalar>("round-nearest-even", GradientKind::kZero, monotone);
const OpDef kRoundNearestAfz = unary<kRoundAfzScalar>("round-nearest-afz", GradientKind::kZero, monotone);
const OpDef kPopcnt = unary<kPopcntScalar>("popcnt", GradientKind::kZero);
const OpDef kCountLeadingZeros = unary<kCountLeadingZerosScalar>("count-leading-zeros", GradientKind::kZero);
const OpDef kIsFinite{
    .name = "is-finite",
    .min_operands = 1,
    .max_operands = 1,
    .elementwise = true,
    .inexpensive = true,
    .infer = infer_is_finite,
    .evaluate = evaluate_is_finite,
    .gradient_kind = GradientKind::kZero,
    .factors = elementwise_factors,
};

}  // namespace rows

namespace ops {
namespace {
Value emit(const OpDef& op, Value x) { return x.builder->emit(op, {x}); }
}  // namespace

Value logical_not(Value x) { return emit(rows::kNot, x); }
Value negate(Value x) { return emit(rows::kNegate, x); }
Value abs(Value x) { return emit(rows::kAbs, x); }
Value sign(Value x) { return emit(rows::kSign, x); }
Value exp(Value x) { return emit(rows::kExponential, x); }
Value exp_minus_one(Value x) { return emit(rows::kExponentialMinusOne, x); }
Value log(Value x) { return emit(rows::kLog, x); }
Value log_plus_one(Value x) { return emit(rows::kLogPlusOne, x); }
Value sqrt(Value x) { return emit(rows::kSqrt, x); }
Value rsqrt(Value x) { return emit(rows::kRsqrt, x); }
Value cbrt(Value x) { return emit(rows::kCbrt, x); }
Value tanh(Value x) { return emit(rows::kTanh, x); }
Value tan(Value x) { return emit(rows::kTan, x); }
Value sin(Value x) { return emit(rows::kSine, x); }
Value cos(Value x) { return emit(rows::kCosine, x); }
Value logistic(Value x) { return emit(rows::kLogistic, x); }
Value erf(Value x) { return emit(rows::kErf, x); }
Value acos(Value x) { return emit(rows::kAcos, x); }
Value acosh(Value x) { return emit(rows::kAcosh, x); }
Value asin(Value x) { return emit(rows::kAsin, x); }
Value asinh(Value x) { return emit(rows::kAsinh, x); }
Value atanh(Value x) { return emit(rows::kAtanh, x); }
Value cosh(Value x) { return emit(rows::kCosh, x); }
Value sinh(Value x) { return emit(rows::kSinh, x); }
Value floor(Value x) { return emit(rows::kFloor, x); }
Value ceil(Value x) { return emit(rows::kCeil, x); }
Value round_nearest_even(Value x) { return emit(rows::kRoundNearestEven, x); }
Value round_nearest_afz(Value x) { return emit(rows::kRoundNearestAfz, x); }
Value is_finite(Value x) { return emit(rows::kIsFinite, x); }
Value popcnt(Value x) { return emit(rows::kPopcnt, x); }
Value count_leading_zeros(Value x) { return emit(rows::kCountLeadingZeros, x); }

}  // namespace ops
}  // namespace tessera
