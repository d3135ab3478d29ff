// SPDX-License-Identifier: Apache-2.0
// The norm of gradients for --full_determinism.
#pragma once

#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera::trainer {

/// Returns the 2-norm of all gradients together, an f64 scalar with the same bits for every sharding of the gradients. The
/// squares of a gradient are added as integers, whose sum does not depend on the order: each square is rounded to a multiple
/// of 2^-b times the largest square, where 2^(62 - b) is at least the number of elements. Error without gradients.
Tensor reproducible_norm(const std::vector<Tensor>& parameters);
/// Scales all gradients by max_norm / (norm + 1e-6) if that is below 1. Returns the norm before scaling.
Tensor clip_reproducibly(const std::vector<Tensor>& parameters, double max_norm);

}  // namespace tessera::trainer
