// SPDX-License-Identifier: Apache-2.0
// Makes rows of elementwise ops from scalar functions. A function works on the widest type of its class of elements,
// and the result is rounded or truncated to the element type once: f32 + - * / sqrt through double are correctly
// rounded, integers wrap.
#pragma once

#include <bit>
#include <complex>
#include <cstdint>
#include <limits>

#include "row_support.h"
#include "tessera/ops/elementwise.h"

namespace tessera::rows {

/// The lowest `bits` bits.
constexpr std::uint64_t low_bits(std::uint64_t x, int bits) {
  return bits == 64 ? x : x & ((std::uint64_t{1} << bits) - 1);
}

/// One scalar function per class; null if the op does not take the class. Integers are sign-extended (signed) or
/// zero-extended (unsigned) to 64 bits.
struct UnaryScalar {
  double (*real)(double) = nullptr;
  std::uint64_t (*integer)(std::uint64_t, int bits) = nullptr;  // signed, and unsigned unless `natural` is set
  std::uint64_t (*natural)(std::uint64_t, int bits) = nullptr;  // unsigned
  bool (*pred)(bool) = nullptr;
  Complex128 (*complex)(Complex128) = nullptr;
};
struct BinaryScalar {
  double (*real)(double, double) = nullptr;
  std::uint64_t (*integer)(std::uint64_t, std::uint64_t, int bits) = nullptr;
  std::uint64_t (*natural)(std::uint64_t, std::uint64_t, int bits) = nullptr;
  bool (*pred)(bool, bool) = nullptr;
  Complex128 (*complex)(Complex128, Complex128) = nullptr;
};

Type infer_unary(const OpView& view, const UnaryScalar& scalar);
Literal evaluate_unary(const EvalContext& context, const UnaryScalar& scalar);
Type infer_binary(const OpView& view, const BinaryScalar& scalar);
Literal evaluate_binary(const EvalContext& context, const BinaryScalar& scalar);
/// Throws an Error unless the operands are two arrays of one element type and equal dims.
void check_same_arrays(const OpView& view);

/// Whether `a direction b`.
template <class T>
bool holds(CompareDirection direction, T a, T b) {
  switch (direction) {
    case CompareDirection::kEq: return a == b;
    case CompareDirection::kNe: return a != b;
    case CompareDirection::kLt: return a < b;
    case CompareDirection::kLe: return a <= b;
    case CompareDirection::kGt: return a > b;
    case CompareDirection::kGe: break;
  }
  return a >= b;
}

/// -NaN < -inf < … < -0 < +0 < … < inf < NaN, as integers.
inline std::int64_t total_order_key(double x) {
  const auto bits = std::bit_cast<std::int64_t>(x);
  return bits >= 0 ? bits : bits ^ std::numeric_limits<std::int64_t>::max();
}

using GradientFunction = std::vector<Value> (*)(GradientContext&);
using LinearityFunction = Linearity (*)(const OpView&, int);

/// How a row of these families is differentiated: by a function, or not at all.
struct ElementwiseGradient {
  GradientKind kind;
  GradientFunction function = nullptr;
  ElementwiseGradient(GradientKind k) : kind(k) {}                                         // NOLINT: rows read better
  ElementwiseGradient(GradientFunction f) : kind(GradientKind::kFunction), function(f) {}  // NOLINT
};

/// See OpDef::inexpensive.
inline OpDef inexpensive(OpDef row) {
  row.inexpensive = true;
  return row;
}

template <const UnaryScalar& kScalar>
OpDef unary(std::string_view name, ElementwiseGradient gradient, LinearityFunction linearity = none) {
  return {.name = name,
          .min_operands = 1,
          .max_operands = 1,
          .elementwise = true,
          .infer = [](const OpView& view) { return infer_unary(view, kScalar); },
          .evaluate = [](const EvalContext& context) { return evaluate_unary(context, kScalar); },
          .gradient_kind = gradient.kind,
          .gradient = gradient.function,
          .factors = elementwise_factors,
          .linearity = linearity};
}

template <const BinaryScalar& kScalar>
OpDef binary(std::string_view name, bool commutative, ElementwiseGradient gradient,
             LinearityFunction linearity = none) {
  return {.name = name,
          .min_operands = 2,
          .max_operands = 2,
          .commutative = commutative,
          .elementwise = true,
          .infer = [](const OpView& view) { return infer_binary(view, kScalar); },
          .evaluate = [](const EvalContext& context) { return evaluate_binary(context, kScalar); },
          .gradient_kind = gradient.kind,
          .gradient = gradient.function,
          .factors = elementwise_factors,
          .linearity = linearity};
}

}  // namespace tessera::rows
