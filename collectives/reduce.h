// SPDX-License-Identifier: Apache-2.0
// The reduction of several buffers, element by element, in the given order: ((s0 op s1) op s2) …. 16-bit floats
// accumulate in f32 and are rounded once; types of one byte or less are rounded or wrap at each step. For pred, the sum
// and the maximum are the logical or; the product and the minimum are the logical and. min and max propagate NaN.
#pragma once

#include <cstddef>
#include <span>

#include "tessera/sharding/sharding.h"
#include "tessera/tensor/dtype.h"

namespace tessera::collectives {

/// False for bitwise reductions of floats and for reductions of complex numbers other than sum and product.
bool can_reduce(DType dtype, Reduction op);

/// out[0, bytes) = the reduction of sources[k][0, bytes). `out` may be one of the sources, but must not overlap one
/// partially.
void reduce_ordered(std::span<const std::byte* const> sources, std::byte* out, std::size_t bytes, DType dtype,
                    Reduction op);

}  // namespace tessera::collectives
