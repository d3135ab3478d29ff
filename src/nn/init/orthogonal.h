// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/builder.h"

namespace tessera::nn {

/// Q of the QR decomposition, with a positive diagonal of R, of each matrix of a stack [count, n, k] of f64, n >= k. The
/// elements must be of the order of 1.
Value orthonormal_columns(Value stack);

}  // namespace tessera::nn
