// SPDX-License-Identifier: Apache-2.0
// The classes of narrow types: f8e4m3fn, f4e2m1fn … are floats; s4, u2 … are integers.
#pragma once

#include "tessera/tensor/dtype.h"

namespace tessera {

constexpr bool is_narrow_float(DType t) { return t >= DType::kF4E2M1FN; }
constexpr bool is_narrow_integer(DType t) { return is_narrow(t) && !is_narrow_float(t); }
/// is_float(), also true for narrow floats, whose values are rounded as well.
constexpr bool is_any_float(DType t) { return is_float(t) || is_narrow_float(t); }

}  // namespace tessera
