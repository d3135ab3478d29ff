// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// x with `update` in place of the elements from `start` (a scalar of an integer type) on along `dim`, as
/// jax.lax.dynamic_update_slice_in_dim. The other dims have equal sizes. A start at which the update would not fit is
/// moved. A variable that is assigned the result is updated in place.
Tensor update_slice(const Tensor& x, const Tensor& update, const Tensor& start, int dim,
                    std::source_location where = std::source_location::current());

}  // namespace tessera
