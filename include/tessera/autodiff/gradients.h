// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation of a computation under construction. The backward pass is appended after the forward
// pass, so the result is still one global program.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/autodiff/gradient_context.h"
#include "tessera/ir/builder.h"

namespace tessera {

/// Frontend attribute of a narrow copy of a parameter: the name of the element type in which its gradients are
/// summed, in products, in scatters and over devices.
inline constexpr std::string_view kSumTypeAttribute = "tessera.sum_type";

/// Frontend attribute of an unshard: the name of the parameter, for reports. The gradient that the unshard stores has
/// the attribute `gradient of NAME`.
inline constexpr std::string_view kSubjectAttribute = "tessera.subject";

/// Frontend attribute of the root of a step: the name of each result for reports, each followed by a comma.
inline constexpr std::string_view kResultNamesAttribute = "tessera.result_names";

/// Frontend attribute of ops of a checkpoint region; its value is the name of the region. The backward pass
/// rematerializes the values of the region from the values that enter it. An opt-barrier delays this until the first
/// gradient reaches the region. Ops with side effects run only once.
inline constexpr std::string_view kCheckpointAttribute = "tessera.checkpoint";

/// Frontend attribute of a `call` whose operands and results are arrays, and whose gradient another computation
/// computes. The value is `COMPUTATION/COUNT`, with the id of this computation. The first COUNT results of the call are
/// the results of the function; the others are residuals that only the gradient reads. The computation takes the
/// operands, the results, and one gradient for each float array among the first COUNT results. It returns a tuple with
/// one gradient for each float operand. The value `!MESSAGE` means that the call has no gradient, and that
/// differentiating it is the error MESSAGE.
inline constexpr std::string_view kGradientAttribute = "tessera.gradient";

/// Returns the gradient that flows to each of `wrt` if `d_outputs` are the gradients of `outputs`. A null result means
/// that no gradient flows. A null gradient of an output means zero. Appends to the builder, as gradients() does.
std::vector<Value> flowing_gradients(Builder& builder, const std::vector<Value>& outputs,
                                     const std::vector<Value>& d_outputs, const std::vector<Value>& wrt);

/// Frontend attribute of an unshard that is repeated in a step: `backward`, or `forward N` for pass N of the step.
/// Unshards of different passes are never merged.
inline constexpr std::string_view kPhaseAttribute = "tessera.phase";

/// Returns the gradients of a scalar `output` with respect to `wrt`, in the order of `wrt`. A value that does not
/// influence the output gets zeros. A null `d_output` means 1. Errors: the output is not a scalar of a float type; an
/// op between `wrt` and the output has no gradient (the error names it and its source line).
///
/// FSDP's unshard is an instruction with the frontend attributes `tessera.unit` and `tessera.recompute`. If
/// `tessera.recompute` is "true", the backward pass repeats the unshard (`tessera.phase` = "backward"), once for each
/// value, together with inexpensive ops that depend only on it. An opt-barrier delays the repeated unshard until the
/// first gradient reaches the unit. The gradient of an unshard gets the sharding in which its operand is stored. Other
/// instructions of the backward pass keep the source line, op_name and unit of the forward op.
std::vector<Value> gradients(Builder& builder, Value output, const std::vector<Value>& wrt, Value d_output = {});

}  // namespace tessera
