// SPDX-License-Identifier: Apache-2.0
// The gradients of collectives and borders of manual regions. Each device has its own operands, and the loss depends on
// the values of all devices, so the gradient of an operand collects what the results of all devices contribute.
#pragma once

#include <vector>

#include "tessera/autodiff/gradient_context.h"

namespace tessera::rows {

std::vector<Value> all_reduce_gradient(GradientContext& context);
std::vector<Value> all_gather_gradient(GradientContext& context);
std::vector<Value> reduce_scatter_gradient(GradientContext& context);
std::vector<Value> all_to_all_gradient(GradientContext& context);
std::vector<Value> permute_gradient(GradientContext& context);
/// Of SPMDFullToShardShape and SPMDShardToFullShape.
std::vector<Value> border_gradient(GradientContext& context);

}  // namespace tessera::rows
