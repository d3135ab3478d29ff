// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation of a computation under construction: appends the backward pass behind the forward pass,
// so the
// result is still one global program.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/autodiff/gradient_context.h"
#include "tessera/ir/builder.h"

namespace tessera {

/// A frontend attribute of a narrow copy of a parameter: the name of the element type in which its gradients are summed up, from products
/// and scatters on, also over devices.
inline constexpr std::string_view kSumTypeAttribute = "tessera.sum_type";

/// The gradients of a scalar `output` with respect to `wrt`, in that order; zeros where nothing flows. `d_output` null
/// = 1.
/// Errors: output not a scalar of a float type; a gradient must pass an op that has none (named, with its source line).
///
/// FSDP's unshard is an instruction with the frontend attributes `tessera.unit` and `tessera.recompute`. With "true"
/// it, and what
/// cheap ops make of it alone, is issued again for the backward pass (`tessera.phase` = "backward") behind an
/// opt-barrier on the
/// first gradient that reaches the unit, once per value. Its gradient goes to the sharding its operand is stored in.
/// Other
/// instructions of the backward pass keep the forward op's source line, op_name and unit.
std::vector<Value> gradients(Builder& builder, Value output, const std::vector<Value>& wrt, Value d_output = {});

}  // namespace tessera
