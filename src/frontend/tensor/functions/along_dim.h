// SPDX-License-Identifier: Apache-2.0
// Values along one dim: at positions, and their running sums.
#pragma once

#include "tessera/ir/builder.h"

namespace tessera {

/// result[i][j] = x[i][index[i][j]] for dim 1. The other dims of index are not larger than those of x.
Value gather_along(Value x, Value index, int dim);
/// Element i is the sum of the elements 0..i along a dim.
Value running_sum(Value x, int dim);
/// Adds source[i][j] to x[i][index[i][j]] for dim 1. The other dims are equal; positions out of range are ignored.
Value scatter_add_along(Value x, Value index, Value source, int dim);

}  // namespace tessera
