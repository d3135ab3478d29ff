// SPDX-License-Identifier: Apache-2.0
// Decides where values may stay partial: which ops accept partial operands, and when that is worthwhile.
#pragma once

#include "propagation/factor_sharding.h"

namespace tessera {

/// The operands that an op accepts as partial values, and the axes.
struct PartialChoice {
  Axes axes;  // sorted; empty if there are none
  Reduction reduction = Reduction::kSum;
  std::vector<bool> operand_is_partial;  // one per operand leaf
};

/// `result_may_stay_partial`: whether consumers of the result accept partial values. In a jointly linear op (add),
/// operands become partial over the union of axes if at least two of them are partial anyway, or if the result may stay
/// partial. Operands on another mesh than `mesh` are reduced first.
PartialChoice choose_partial(const OpView& view, const std::vector<Sharding>& operands, const Mesh& mesh,
                             bool result_may_stay_partial);

/// Whether `user` accepts `value` as a partial sum and its result is not larger.
bool takes_partial(const Program& program, const Computation& computation, Id user, Id value);

/// By value: whether it never needs to be reduced, because all its uses lead, through ops that pass sums on, to results
/// that must be partial sums (`root`: the required sharding of each result) or to values annotated as such. Takes a
/// propagated computation.
std::vector<bool> ends_partial(const Program& program, const Computation& computation, const Shardings& root);

}  // namespace tessera
