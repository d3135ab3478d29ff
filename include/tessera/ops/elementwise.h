// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: arithmetic, comparison, logic, transcendental, select, clamp, convert, bitcast-convert.
// Operands have equal dims; broadcasting is explicit (`broadcast`).
#pragma once

#include "tessera/ir/builder.h"

namespace tessera {

enum class CompareDirection : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };
enum class CompareType : std::uint8_t { kDefault, kFloat, kTotalOrder, kSigned, kUnsigned };
struct CompareAttributes {
  CompareDirection direction = CompareDirection::kEq;
  CompareType type = CompareType::kDefault;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("direction", self.direction, Presence::kRequired);
    visit("type", self.type, Presence::kIfNotDefault);
  }
  friend bool operator==(const CompareAttributes&, const CompareAttributes&) = default;
};
std::string field_text(CompareDirection value);
std::string field_text(CompareType value);
void parse_field(std::string_view text, CompareDirection& value);
void parse_field(std::string_view text, CompareType& value);

namespace ops {
Value add(Value lhs, Value rhs);
Value subtract(Value lhs, Value rhs);
Value multiply(Value lhs, Value rhs);
Value divide(Value lhs, Value rhs);
Value remainder(Value lhs, Value rhs);
Value power(Value lhs, Value rhs);
Value maximum(Value lhs, Value rhs);
Value minimum(Value lhs, Value rhs);
Value atan2(Value lhs, Value rhs);
Value logical_and(Value lhs, Value rhs);  // bitwise on integers
Value logical_or(Value lhs, Value rhs);
Value logical_xor(Value lhs, Value rhs);
Value logical_not(Value x);
Value shift_left(Value lhs, Value rhs);
Value shift_right_arithmetic(Value lhs, Value rhs);
Value shift_right_logical(Value lhs, Value rhs);
Value compare(Value lhs, Value rhs, CompareDirection direction, CompareType type = CompareType::kDefault);
Value negate(Value x);
Value abs(Value x);
Value sign(Value x);
Value exp(Value x);            // exponential
Value exp_minus_one(Value x);  // exponential-minus-one
Value log(Value x);
Value log_plus_one(Value x);  // log-plus-one
Value sqrt(Value x);
Value rsqrt(Value x);
Value cbrt(Value x);
Value tanh(Value x);
Value tan(Value x);
Value sin(Value x);  // sine
Value cos(Value x);  // cosine
Value logistic(Value x);
Value erf(Value x);
Value acos(Value x);
Value acosh(Value x);
Value asin(Value x);
Value asinh(Value x);
Value atanh(Value x);
Value cosh(Value x);
Value sinh(Value x);
/// Complex elements from their real and imaginary parts (f32 or f64), and the reverse.
Value complex(Value real, Value imaginary);
Value real(Value x);
Value imag(Value x);
/// Rounds x to a float format with these numbers of bits. The element type does not change.
Value reduce_precision(Value x, std::int64_t exponent_bits, std::int64_t mantissa_bits);
Value floor(Value x);
Value ceil(Value x);
Value round_nearest_even(Value x);  // round-nearest-even
Value round_nearest_afz(Value x);   // round-nearest-afz
Value is_finite(Value x);
Value popcnt(Value x);
Value count_leading_zeros(Value x);
Value select(Value predicate, Value on_true, Value on_false);  // predicate of the same dims, or a scalar
Value clamp(Value low, Value x, Value high);                   // bounds of the same dims, or scalars
Value convert(Value x, DType to);
Value bitcast_convert(Value x, Type to);
}  // namespace ops
}  // namespace tessera
