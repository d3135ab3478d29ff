// SPDX-License-Identifier: Apache-2.0
// Batching of called computations.
#pragma once

#include <vector>

#include "batch_leaves.h"
#include "tessera/autodiff/batching.h"

namespace tessera::autodiff {

/// A tuple of the elements; appends their leaves to `leaves`.
Value packed(Builder& builder, const std::vector<Batched>& elements, BatchedLeaves& leaves);

/// At least one leaf of the operands is batched.
Batched batched_call(Builder& into, const Instruction& instruction, const std::vector<Batched>& operands,
                     std::int64_t examples);
Batched batched_while(Builder& into, const Instruction& instruction, const Batched& init, std::int64_t examples);
/// `operands` are the index and an operand for each branch.
Batched batched_conditional(Builder& into, const Instruction& instruction, const std::vector<Batched>& operands,
                            std::int64_t examples);

}  // namespace tessera::autodiff
