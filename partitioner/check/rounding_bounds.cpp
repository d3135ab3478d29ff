// SPDX-License-Identifier: Apache-2.0
#include "check/rounding_bounds.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/structural.h"
#include "tessera/tensor/narrow_dtype.h"

namespace tessera {
namespace {

constexpr double kRoundings = 256;           // for sums in another order, relative to the largest value
constexpr double kRoundingsBesideNoise = 8;  // for 16-bit floats
constexpr double kRoundingsOfConstants = 8;  // for folded constants and occasional roundings
constexpr double kNoises = 32;
constexpr double kWideRelative = 0x1p-30;

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::kF16: return 0x1p-10;
    case DType::kBF16: return 0x1p-7;
    case DType::kF32: return 0x1p-23;
    case DType::kF64: return 0x1p-52;
    default: return 0;  // 8 bits and fewer: their effect on results is measured
  }
}

double epsilon_of(const Type& type) {
  double most = 0;
  for (const auto& leaf : type.leaves())
    if (leaf.is_array() && is_float(real_dtype(leaf.dtype())))
      most = std::max(most, epsilon_of(real_dtype(leaf.dtype())));
  return most;
}

// The epsilon of the narrowest type among all values of the program.
double epsilon_of(const Program& program) {
  double most = 0;
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions) most = std::max(most, epsilon_of(instruction.type));
  return most;
}

// The largest epsilon of the floats of 8 bits and fewer: the distance from 1 to the next number.
double epsilon_of_narrow(const Program& program) {
  double most = 0;
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      for (const auto& leaf : instruction.type.leaves())
        if (leaf.is_array() && is_narrow_float(leaf.dtype())) {
          const int one = narrow_bits(leaf.dtype(), 1);
          most = std::max(most, narrow_value(leaf.dtype(), static_cast<std::uint8_t>(one + 1)) - 1);
        }
  return most;
}

// The epsilon of the narrowest type in which a program in double precision still computes.
double rounding_epsilon_of(const Program& program) {
  double most = 0;
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      if (const double here = epsilon_of(instruction.type);
          here > epsilon_of(DType::kF64) && instruction.op->role == Role::kPlain)
        most = std::max(most, here);
  return most;
}

// The largest number of terms in an element of a result.
double longest_sum(const Program& program) {
  double most = 0;
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      if (instruction.type.is_array() && instruction.type.element_count() > 0)
        most = std::max(most, flops_of(view_of(program, *computation, instruction)) /
                                  static_cast<double>(instruction.type.element_count()));
  return most;
}

template <class F>
void for_each_constant(const Program& program, F&& f) {
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      if (instruction.op->role == Role::kConstant && instruction.type.is_array())
        if (const Literal value = attributes_as<ConstantAttributes>(instruction.attributes).value.as_reals();
            is_float(value.type().dtype()))
          f(value);
}

// The epsilon of the narrowest type that can represent the number, as the type to which it was probably rounded. 0 for
// integers and numbers of few bits, which may be exact.
double epsilon_of_number(double value) {
  int exponent = 0;
  const double leading = std::ldexp(std::frexp(value, &exponent), 4);
  if (!std::isfinite(value) || value == std::nearbyint(value) || leading == std::nearbyint(leading)) return 0;
  if (static_cast<double>(BFloat16(static_cast<float>(value))) == value) return epsilon_of(DType::kBF16);
  if (static_cast<double>(Float16(static_cast<float>(value))) == value) return epsilon_of(DType::kF16);
  return static_cast<double>(static_cast<float>(value)) == value ? epsilon_of(DType::kF32) : 0;
}

// The largest epsilon among constants of the second program that the first does not have, because they were computed by
// folding.
double folding_epsilon_of(const Program& program, const Program& partitioned) {
  std::unordered_set<double> given;
  for_each_constant(program, [&](const Literal& value) {
    for (std::int64_t i = 0; i < value.type().element_count(); ++i) given.insert(element_as_double(value, i));
  });
  double most = 0;
  for_each_constant(partitioned, [&](const Literal& value) {
    for (std::int64_t i = 0; i < value.type().element_count(); ++i)
      if (const double number = element_as_double(value, i); !given.contains(number))
        most = std::max(most, epsilon_of_number(number));
  });
  return most;
}

}  // namespace

// The effect of rounding is measured by computing in a wider type. There is none for double precision, so the bound
// contains one rounding for each term of a sum.
double relative_bound_of(const Program& program) {
  const double epsilon = epsilon_of(program);
  return epsilon * (epsilon > epsilon_of(DType::kF64) ? kRoundings : std::max(kRoundings, longest_sum(program)));
}

double relative_epsilon_of(const Program& program) {
  const double epsilon = epsilon_of(program);
  return epsilon > 0 ? epsilon : epsilon_of_narrow(program);
}

double relative_bound_of_wide(const Program& program, const Program& partitioned) {
  return std::max({kWideRelative, rounding_epsilon_of(program) * kRoundingsOfConstants,
                   rounding_epsilon_of(partitioned) * kRoundingsOfConstants,
                   folding_epsilon_of(program, partitioned) * kRoundingsOfConstants});
}

bool rounds(double relative_bound_of_wide) { return relative_bound_of_wide > kWideRelative; }

double relative_bound_with_noise(const Program& program) {
  const double epsilon = epsilon_of(program);
  return epsilon > epsilon_of(DType::kF32) ? epsilon * kRoundingsBesideNoise : relative_bound_of(program);
}

double absolute_bound_from(const Literal& given, const Literal& exact) {
  const Literal left = given.as_reals();
  const Literal right = exact.as_reals();
  double most = 0;
  for (std::int64_t i = 0; i < left.type().element_count(); ++i) {
    const double difference = std::fabs(element_as_double(left, i) - element_as_double(right, i));
    if (std::isfinite(difference)) most = std::max(most, difference);
  }
  return most * kNoises;
}

}  // namespace tessera
