// SPDX-License-Identifier: Apache-2.0
// Helpers that reduce and reduce-window share. Their operands are the inputs and then the init values; to_apply
// combines two values.
#pragma once

#include <optional>
#include <type_traits>

#include "row_support.h"
#include "tessera/ops/contraction.h"

namespace tessera::rows {

inline int input_count(const OpView& view) { return isize(view.operands) / 2; }

inline std::optional<Reduction> known_reduction(const OpView& view) {
  return input_count(view) == 1 ? reduction_of(*view.called[0]) : std::nullopt;
}

/// The type of input i. Throws an Error unless it has the dims of input 0 and its init is a scalar of its element type.
const Type& checked_input(const OpView& view, int i);
/// Throws an Error unless to_apply is (a.., b..) -> (a..) of the inputs' element types.
void check_to_apply(const OpView& view);

/// The type in which elements of T are accumulated before rounding once.
template <class T>
using WideInteger = std::conditional_t<is_signed_int(kDTypeOf<T>), std::int64_t, std::uint64_t>;
template <class T>
using Wide = std::conditional_t<is_complex(kDTypeOf<T>), Complex128,
                                std::conditional_t<is_float(kDTypeOf<T>), double, WideInteger<T>>>;

inline Complex128 combined(Reduction reduction, Complex128 a, Complex128 b) {
  ensure(reduction == Reduction::kSum || reduction == Reduction::kProduct, "complex elements have no order");
  return reduction == Reduction::kSum ? a + b : a * b;
}

/// One step of a reduction, in double or 64 bits. Integers wrap: sums and products work on bits, regardless of the
/// sign.
template <class W>
W combined(Reduction reduction, W a, W b) {
  using Bits = std::conditional_t<std::is_integral_v<W>, std::uint64_t, W>;
  switch (reduction) {
    case Reduction::kSum: return static_cast<W>(static_cast<Bits>(a) + static_cast<Bits>(b));
    case Reduction::kProduct: return static_cast<W>(static_cast<Bits>(a) * static_cast<Bits>(b));
    case Reduction::kMin:
      if constexpr (std::is_same_v<W, double>)
        return smaller(a, b);
      else
        return b < a ? b : a;
    case Reduction::kMax:
      if constexpr (std::is_same_v<W, double>)
        return larger(a, b);
      else
        return a < b ? b : a;
    case Reduction::kAnd:
    case Reduction::kOr:
      if constexpr (!std::is_same_v<W, double>) return reduction == Reduction::kAnd ? a & b : a | b;
  }
  throw InternalError("`and` and `or` are not defined for floating-point numbers");
}

}  // namespace tessera::rows
