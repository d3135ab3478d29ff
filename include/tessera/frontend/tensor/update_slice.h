// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// Returns x, with `update` in place of the elements along `dim` that begin at `start` (a scalar of an integer type),
/// as jax.lax.dynamic_update_slice_in_dim. The other dims have equal sizes. `start` is clamped so that the update fits.
/// If the result is assigned to the variable x, it is updated in place.
Tensor update_slice(const Tensor& x, const Tensor& update, const Tensor& start, int dim,
                    std::source_location where = std::source_location::current());

}  // namespace tessera
