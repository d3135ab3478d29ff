// SPDX-License-Identifier: Apache-2.0
// The types in which products are summed: double, 64-bit integers that wrap, complex doubles. With few types, loops
// over products are compiled three times instead of once per pair of element types.
#pragma once

#include <vector>

#include "tessera/tensor/literal.h"

namespace tessera::rows {

/// The elements of `x`, row-major. W: double, std::uint64_t (negative integers wrap) or Complex128.
template <class W>
std::vector<W> widened(const Literal& x);

/// Rounds sums to the type of `out`, row-major; pred is whether a sum is not 0. Complex sums require a complex `out`.
template <class W>
void narrow(const std::vector<W>& sums, Literal& out);

/// Calls f<W>() with the type to sum in for operands of one type and a result of another.
template <class F>
void visit_wide(DType operand, DType result, F&& f) {
  if (is_complex(operand) || is_complex(result)) return f.template operator()<Complex128>();
  if (is_float(operand) || is_float(result)) return f.template operator()<double>();
  f.template operator()<std::uint64_t>();
}

}  // namespace tessera::rows
