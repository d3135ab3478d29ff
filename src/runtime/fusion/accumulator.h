// SPDX-License-Identifier: Apache-2.0
// The accumulators of the kernel set's reductions (kernels/simd/kernel_set.h), and the mapping from reductions to them.
#pragma once

#include <optional>
#include <type_traits>

#include "kernels/simd/kernel_set.h"
#include "tessera/ops/contraction.h"

namespace tessera {

template <class T, bool kExtremum>
using Accumulator = std::conditional_t<is_float(kDTypeOf<T>) && kDTypeOf<T> != DType::kF64,
                                       std::conditional_t<kExtremum, float, double>, T>;

/// Depends on the element type: for pred, and = min = product, and or = max = sum.
std::optional<kernels::ReduceOp> reduce_op(Reduction reduction, DType dtype);
inline bool is_extremum(kernels::ReduceOp op) { return op == kernels::ReduceOp::kMin || op == kernels::ReduceOp::kMax; }

}  // namespace tessera
