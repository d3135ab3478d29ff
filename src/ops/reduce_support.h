// SPDX-License-Identifier: Apache-2.0
// What reduce and reduce-window share: operands, then their inits, folded by to_apply.
#pragma once

#include <cmath>
#include <optional>

#include "row_support.h"
#include "tessera/ops/contraction.h"

namespace tessera::rows {

inline int input_count(const OpView& view) { return isize(view.operands) / 2; }

inline std::optional<Reduction> known_reduction(const OpView& view) {
  return input_count(view) == 1 ? reduction_of(*view.called[0]) : std::nullopt;
}

/// Error unless to_apply is (a.., b..) -> (a..) of the inputs' element types.
void check_to_apply(const OpView& view);

inline Complex128 combined(Reduction reduction, Complex128 a, Complex128 b) {
  ensure(reduction == Reduction::kSum || reduction == Reduction::kProduct, "complex elements have no order");
  return reduction == Reduction::kSum ? a + b : a * b;
}

/// One step of a reduction, in double or 64 bits.
template <class Wide>
Wide combined(Reduction reduction, Wide a, Wide b) {
  switch (reduction) {
    case Reduction::kSum: return static_cast<Wide>(a + b);
    case Reduction::kProduct: return static_cast<Wide>(a * b);
    case Reduction::kMin:
      if constexpr (std::is_same_v<Wide, double>)
        if (std::isnan(a) || std::isnan(b)) return a + b;
      return b < a ? b : a;
    case Reduction::kMax:
      if constexpr (std::is_same_v<Wide, double>)
        if (std::isnan(a) || std::isnan(b)) return a + b;
      return a < b ? b : a;
    case Reduction::kAnd:
      if constexpr (!std::is_same_v<Wide, double>) return a & b;
      break;
    case Reduction::kOr:
      if constexpr (!std::is_same_v<Wide, double>) return a | b;
      break;
  }
  throw InternalError("and, or of floating-point numbers");
}

}  // namespace tessera::rows
