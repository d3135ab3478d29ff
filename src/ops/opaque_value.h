// SPDX-License-Identifier: Apache-2.0
// Values for what evaluation cannot know: unknown custom-calls, what an infeed or a receive brings.
#pragma once

#include "tessera/tensor/literal.h"

namespace tessera::rows {

/// A deterministic function of the seed and the type: floats in [-1, 1], moved smoothly by `smooth`; integers below 100.
Literal opaque_value(std::size_t seed, const Type& type, double smooth = 0);

}  // namespace tessera::rows
