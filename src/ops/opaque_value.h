// SPDX-License-Identifier: Apache-2.0
// Values that evaluation cannot know: results of unknown custom-calls, and data that infeeds or receives return.
#pragma once

#include "tessera/tensor/literal.h"

namespace tessera::rows {

/// A deterministic function of the seed and the type: floats in [-1, 1] that depend continuously on `smooth`; integers
/// below 100.
Literal opaque_value(std::size_t seed, const Type& type, double smooth = 0);

}  // namespace tessera::rows
