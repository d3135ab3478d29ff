// SPDX-License-Identifier: Apache-2.0
// Rounding up or down at random, with the probabilities that make the expected result equal to the value.
#pragma once

#include "tessera/frontend/tensor/tensor.h"

namespace tessera::optim {

/// Rounds f32 to bf16. The random numbers depend on the seed, the step and the index of the element, not on the sharding.
/// Infinities and NaN stay.
Tensor stochastically_rounded(const Tensor& x);

}  // namespace tessera::optim
