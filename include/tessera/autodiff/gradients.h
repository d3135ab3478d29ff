// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation of a computation under construction: appends the backward pass behind the forward pass, so the
// result is still one global program.
#pragma once

#include <vector>

#include "tessera/autodiff/gradient_context.h"
#include "tessera/ir/builder.h"

namespace tessera {

/// The gradients of a scalar `output` with respect to `wrt`, in that order; zeros where nothing flows. `d_output` null = 1.
/// Errors: output not a scalar of a float type; a gradient must pass an op that has none (named, with its source line).
/// Instructions marked frontend attribute `tessera.recompute` (FSDP's unshard) are issued again for the backward pass behind an
/// opt-barrier on the incoming gradient, once per unit.
std::vector<Value> gradients(Builder& builder, Value output, const std::vector<Value>& wrt, Value d_output = {});

}  // namespace tessera
