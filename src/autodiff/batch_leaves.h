// SPDX-License-Identifier: Apache-2.0
// Which leaves of values are batched: the analysis before batching emits anything.
#pragma once

#include <vector>

#include "tessera/ir/program.h"

namespace tessera::autodiff {

/// One entry for each leaf of a value: whether it is batched.
using BatchedLeaves = std::vector<bool>;

bool any_leaf(const BatchedLeaves& leaves);
/// The leaves of a and b together.
BatchedLeaves union_of(BatchedLeaves a, const BatchedLeaves& b);

/// The leaves of the root that are batched if those of the parameters are.
BatchedLeaves batched_root(const Program& program, const Computation& computation,
                           const std::vector<BatchedLeaves>& parameters);

/// The leaves of the result of a call. If the call has a gradient of its own (kGradientAttribute), all results of the
/// function are batched, because the gradients of a shared result would count once for each example.
BatchedLeaves batched_results(const Program& program, const Instruction& call,
                              const std::vector<BatchedLeaves>& operands);

/// The leaves of the state of a while, from those of its initial value, and whether its condition is batched. If it is,
/// all leaves that the body changes are batched.
struct BatchedState {
  BatchedLeaves leaves;
  bool has_batched_condition = false;
};
BatchedState batched_state(const Program& program, const Instruction& loop, BatchedLeaves init);

}  // namespace tessera::autodiff
