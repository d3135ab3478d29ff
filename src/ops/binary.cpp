// SPDX-License-Identifier: Apache-2.0
// Elementwise ops of two operands. All are total, as HLO defines them: for integers, x/0 has all bits set, x%0 is x,
// and INT_MIN/-1 is INT_MIN; a shift by the width or more gives zeros or copies of the sign; max and min propagate NaN.
#include <cmath>
#include <limits>

#include "elementwise_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace rows {
namespace {

using i64 = std::int64_t;
using u64 = std::uint64_t;
using c128 = Complex128;

// ---- scalar functions -----------------------------------------------------------------------------------------------

constexpr i64 as_signed(u64 x) { return static_cast<i64>(x); }

u64 divide_signed(u64 a, u64 b, int) {
  if (b == 0) return ~u64{0};
  return as_signed(b) == -1 ? u64{0} - a : static_cast<u64>(as_signed(a) / as_signed(b));
}
u64 remainder_signed(u64 a, u64 b, int) {
  if (b == 0) return a;
  return as_signed(b) == -1 ? 0 : static_cast<u64>(as_signed(a) % as_signed(b));
}
u64 power_unsigned(u64 base, u64 exponent, int) {
  u64 out = 1;
  for (; exponent != 0; exponent >>= 1, base *= base)
    if ((exponent & 1) != 0) out *= base;
  return out;
}
u64 power_signed(u64 base, u64 exponent, int bits) {
  if (as_signed(exponent) >= 0) return power_unsigned(base, exponent, bits);
  if (as_signed(base) == -1) return (exponent & 1) != 0 ? base : 1;
  return base == 1 ? 1 : 0;
}
// The angle of x + iy for complex x and y: -i log((x + iy) / sqrt(x^2 + y^2)).
c128 atan2_complex(c128 y, c128 x) {
  const c128 i(0, 1);
  return -i * std::log((x + i * y) / std::sqrt(x * x + y * y));
}
u64 shift_left_bits(u64 x, u64 by, int bits) { return low_bits(by, bits) >= static_cast<u64>(bits) ? 0 : x << by; }
u64 shift_right_zeros(u64 x, u64 by, int bits) {
  return low_bits(by, bits) >= static_cast<u64>(bits) ? 0 : low_bits(x, bits) >> by;
}
u64 shift_right_sign(u64 x, u64 by, int bits) {
  const auto unused = static_cast<u64>(64 - bits);
  const i64 extended = as_signed(x << unused) >> unused;  // copies the top bit of unsigned elements too
  return static_cast<u64>(extended >> (low_bits(by, bits) >= static_cast<u64>(bits) ? 63 : by));
}

constexpr BinaryScalar kAddScalar{.real = [](double a, double b) { return a + b; },
                                  .integer = [](u64 a, u64 b, int) { return a + b; },
                                  .pred = [](bool a, bool b) { return a || b; },
                                  .complex = [](c128 a, c128 b) { return a + b; }};
constexpr BinaryScalar kSubtractScalar{.real = [](double a, double b) { return a - b; },
                                       .integer = [](u64 a, u64 b, int) { return a - b; },
                                       .complex = [](c128 a, c128 b) { return a - b; }};
constexpr BinaryScalar kMultiplyScalar{.real = [](double a, double b) { return a * b; },
                                       .integer = [](u64 a, u64 b, int) { return a * b; },
                                       .pred = [](bool a, bool b) { return a && b; },
                                       .complex = [](c128 a, c128 b) { return a * b; }};
constexpr BinaryScalar kDivideScalar{.real = [](double a, double b) { return a / b; },
                                     .integer = divide_signed,
                                     .natural = [](u64 a, u64 b, int) { return b == 0 ? ~u64{0} : a / b; },
                                     .complex = [](c128 a, c128 b) { return a / b; }};
constexpr BinaryScalar kRemainderScalar{.real = [](double a, double b) { return std::fmod(a, b); },
                                        .integer = remainder_signed,
                                        .natural = [](u64 a, u64 b, int) { return b == 0 ? a : a % b; }};
constexpr BinaryScalar kPowerScalar{.real = [](double a, double b) { return std::pow(a, b); },
                                    .integer = power_signed,
                                    .natural = power_unsigned,
                                    .complex = [](c128 a, c128 b) { return std::pow(a, b); }};
constexpr BinaryScalar kMaximumScalar{.real = larger,
                                      .integer = [](u64 a, u64 b, int) { return as_signed(a) >= as_signed(b) ? a : b; },
                                      .natural = [](u64 a, u64 b, int) { return a >= b ? a : b; },
                                      .pred = [](bool a, bool b) { return a || b; }};
constexpr BinaryScalar kMinimumScalar{.real = smaller,
                                      .integer = [](u64 a, u64 b, int) { return as_signed(a) <= as_signed(b) ? a : b; },
                                      .natural = [](u64 a, u64 b, int) { return a <= b ? a : b; },
                                      .pred = [](bool a, bool b) { return a && b; }};
constexpr BinaryScalar kAtan2Scalar{.real = [](double a, double b) { return std::atan2(a, b); },
                                    .complex = atan2_complex};
constexpr BinaryScalar kAndScalar{.integer = [](u64 a, u64 b, int) { return a & b; },
                                  .pred = [](bool a, bool b) { return a && b; }};
constexpr BinaryScalar kOrScalar{.integer = [](u64 a, u64 b, int) { return a | b; },
                                 .pred = [](bool a, bool b) { return a || b; }};
constexpr BinaryScalar kXorScalar{.integer = [](u64 a, u64 b, int) { return a ^ b; },
                                  .pred = [](bool a, bool b) { return a != b; }};
constexpr BinaryScalar kShiftLeftScalar{.integer = shift_left_bits};
constexpr BinaryScalar kShiftRightArithmeticScalar{.integer = shift_right_sign};
constexpr BinaryScalar kShiftRightLogicalScalar{.integer = shift_right_zeros};

// ---- linearity ------------------------------------------------------------------------------------------------------

Linearity divide_linearity(const OpView& view, int operand) {
  return operand == 0 && is_float(view.result.dtype()) ? Linearity::kLinear : Linearity::kNone;
}

// ---- gradients ------------------------------------------------------------------------------------------------------

using Values = std::vector<Value>;

Value zero_like(Value x) { return full_like(x, 0); }

Values d_add(GradientContext& c) { return {c.d_result(), c.d_result()}; }
Values d_subtract(GradientContext& c) { return {c.d_result(), c.needs(1) ? ops::negate(c.d_result()) : Value{}}; }
Values d_multiply(GradientContext& c) {
  const Value d = c.d_result();
  return {c.needs(0) ? ops::multiply(d, c.operand(1)) : Value{}, c.needs(1) ? ops::multiply(d, c.operand(0)) : Value{}};
}
Values d_divide(GradientContext& c) {
  const Value scaled = ops::divide(c.d_result(), c.operand(1));
  return {scaled, c.needs(1) ? ops::negate(ops::multiply(scaled, c.result)) : Value{}};
}
// a % b = a - q*b with q = trunc(a/b), which (a - result)/b recovers.
Values d_remainder(GradientContext& c) {
  if (!c.needs(1)) return {c.d_result(), {}};
  const Value quotient = ops::round_nearest_even(ops::divide(ops::subtract(c.operand(0), c.result), c.operand(1)));
  return {c.d_result(), ops::negate(ops::multiply(c.d_result(), quotient))};
}
Values d_power(GradientContext& c) {
  const Value base = c.operand(0);
  const Value exponent = c.operand(1);
  Values out(2);
  if (c.needs(0)) {  // 0 at exponent 0, even if base is 0. Base 1 there, so that further derivatives are 0, too
    const Value is_flat = ops::compare(exponent, zero_like(exponent), CompareDirection::kEq);
    const Value safe = ops::select(is_flat, full_like(base, 1), base);
    const Value lower = ops::power(safe, ops::subtract(exponent, full_like(base, 1)));
    out[0] = ops::multiply(c.d_result(), ops::select(is_flat, zero_like(base), ops::multiply(exponent, lower)));
  }
  if (c.needs(1)) {  // 0 at base 0
    const Value is_zero = ops::compare(base, zero_like(base), CompareDirection::kEq);
    const Value log = ops::log(ops::select(is_zero, full_like(base, 1), base));
    out[1] = ops::multiply(c.d_result(), ops::multiply(c.result, log));
  }
  return out;
}
// Ties belong to lhs.
bool is_constant(Value x) {
  const Instruction* made = &x.instruction();
  if (made->op == &kBroadcast) made = &(*x.builder)[made->operands[0]];
  return made->op->role == Role::kConstant;
}

// Equal operands share the gradient equally. If one of them is a constant, the other gets none, so that relu has the
// gradient 0 at 0.
Values d_extremum(GradientContext& c, CompareDirection wins) {
  const Value d = c.d_result();
  const Value zero = zero_like(d);
  const bool one_is_constant = is_constant(c.operand(0)) || is_constant(c.operand(1));
  const auto share = [&](int own, int other) {
    const Value won = ops::select(ops::compare(c.operand(own), c.operand(other), wins), d, zero);
    if (one_is_constant) return won;
    const Value is_tie = ops::compare(c.operand(own), c.operand(other), CompareDirection::kEq);
    return ops::select(is_tie, ops::multiply(d, full_like(d, 0.5)), won);
  };
  return {c.needs(0) ? share(0, 1) : Value{}, c.needs(1) ? share(1, 0) : Value{}};
}
Values d_maximum(GradientContext& c) { return d_extremum(c, CompareDirection::kGt); }
Values d_minimum(GradientContext& c) { return d_extremum(c, CompareDirection::kLt); }
// 0 at (0, 0), as in PyTorch.
Values d_atan2(GradientContext& c) {
  const Value y = c.operand(0);
  const Value x = c.operand(1);
  const Value square = ops::add(ops::multiply(x, x), ops::multiply(y, y));
  const Value is_zero = ops::compare(square, zero_like(square), CompareDirection::kEq);
  const Value scaled = ops::divide(c.d_result(), ops::select(is_zero, full_like(square, 1), square));
  return {ops::multiply(scaled, x), ops::negate(ops::multiply(scaled, y))};
}

// The row of an op that combines two values of a reduction.
OpDef combiner(Reduction of_numbers, Reduction of_pred, OpDef row) {
  row.combines = {of_numbers, of_pred};
  return inexpensive(std::move(row));
}

}  // namespace

const OpDef kAdd = combiner(Reduction::kSum, Reduction::kOr, binary<kAddScalar>("add", true, d_add, jointly_linear));
const OpDef kSubtract = inexpensive(binary<kSubtractScalar>("subtract", false, d_subtract, jointly_linear));
const OpDef kMultiply =
    combiner(Reduction::kProduct, Reduction::kAnd, binary<kMultiplyScalar>("multiply", true, d_multiply, linear));
const OpDef kDivide = binary<kDivideScalar>("divide", false, d_divide, divide_linearity);
const OpDef kRemainder = binary<kRemainderScalar>("remainder", false, d_remainder);
const OpDef kPower = binary<kPowerScalar>("power", false, d_power);
const OpDef kMaximum =
    combiner(Reduction::kMax, Reduction::kOr, binary<kMaximumScalar>("maximum", true, d_maximum, monotone));
const OpDef kMinimum =
    combiner(Reduction::kMin, Reduction::kAnd, binary<kMinimumScalar>("minimum", true, d_minimum, monotone));
const OpDef kAtan2 = binary<kAtan2Scalar>("atan2", false, d_atan2);
const OpDef kAnd = combiner(Reduction::kAnd, Reduction::kAnd, binary<kAndScalar>("and", true, GradientKind::kZero));
const OpDef kOr = combiner(Reduction::kOr, Reduction::kOr, binary<kOrScalar>("or", true, GradientKind::kZero));
const OpDef kXor = inexpensive(binary<kXorScalar>("xor", true, GradientKind::kZero));
const OpDef kShiftLeft = binary<kShiftLeftScalar>("shift-left", false, GradientKind::kZero);
const OpDef kShiftRightArithmetic =
    binary<kShiftRightArithmeticScalar>("shift-right-arithmetic", false, GradientKind::kZero);
const OpDef kShiftRightLogical = binary<kShiftRightLogicalScalar>("shift-right-logical", false, GradientKind::kZero);

}  // namespace rows

namespace ops {
namespace {
Value emit(const OpDef& op, Value lhs, Value rhs) { return lhs.builder->emit(op, {lhs, rhs}); }
}  // namespace

Value add(Value lhs, Value rhs) { return emit(rows::kAdd, lhs, rhs); }
Value subtract(Value lhs, Value rhs) { return emit(rows::kSubtract, lhs, rhs); }
Value multiply(Value lhs, Value rhs) { return emit(rows::kMultiply, lhs, rhs); }
Value divide(Value lhs, Value rhs) { return emit(rows::kDivide, lhs, rhs); }
Value remainder(Value lhs, Value rhs) { return emit(rows::kRemainder, lhs, rhs); }
Value power(Value lhs, Value rhs) { return emit(rows::kPower, lhs, rhs); }
Value maximum(Value lhs, Value rhs) { return emit(rows::kMaximum, lhs, rhs); }
Value minimum(Value lhs, Value rhs) { return emit(rows::kMinimum, lhs, rhs); }
Value atan2(Value lhs, Value rhs) { return emit(rows::kAtan2, lhs, rhs); }
Value logical_and(Value lhs, Value rhs) { return emit(rows::kAnd, lhs, rhs); }
Value logical_or(Value lhs, Value rhs) { return emit(rows::kOr, lhs, rhs); }
Value logical_xor(Value lhs, Value rhs) { return emit(rows::kXor, lhs, rhs); }
Value shift_left(Value lhs, Value rhs) { return emit(rows::kShiftLeft, lhs, rhs); }
Value shift_right_arithmetic(Value lhs, Value rhs) { return emit(rows::kShiftRightArithmetic, lhs, rhs); }
Value shift_right_logical(Value lhs, Value rhs) { return emit(rows::kShiftRightLogical, lhs, rhs); }

}  // namespace ops
}  // namespace tessera
