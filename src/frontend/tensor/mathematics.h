// SPDX-License-Identifier: Apache-2.0
// Elementwise functions of values that several functions of tensors use.
#pragma once

#include "tessera/ir/builder.h"

namespace tessera {

/// x^exponent for x >= 0. The gradient at 0 is 0.
Value root(Value x, double exponent);
/// log(exp(x) + exp(y)).
Value logaddexp_value(Value x, Value y);
/// start + weight * (end - start).
Value lerp_value(Value start, Value end, Value weight);

}  // namespace tessera
