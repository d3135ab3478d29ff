// SPDX-License-Identifier: Apache-2.0
// Where a value may stay partial: which ops take partial values in place of the value, and when it pays.
#pragma once

#include "propagation/factor_sharding.h"

namespace tessera {

/// Which operands an op takes partial, over which axes.
struct PartialChoice {
  Axes axes;  // sorted; empty: none
  Reduction reduction = Reduction::kSum;
  std::vector<bool> operand_is_partial;  // one per operand leaf
};

/// `result_may_stay_partial`: the result may in turn stay partial. Joint partial values (add) are promoted to partial over the union of axes
/// when two or more of them wait for a reduction anyway, or the result goes on partial. Operands over another mesh than `mesh` are
/// reduced first.
PartialChoice choose_partial(const OpView& view, const std::vector<Sharding>& operands, const Mesh& mesh,
                             bool result_may_stay_partial);

/// True when `user` can take `value` partial (a sum) and its result is no larger.
bool takes_partial(const Program& program, const Computation& computation, Id user, Id value);

/// Which values need never be reduced: all that becomes of them ends, through ops that take sums, in results that lie as
/// partial sums (`root`: how each result must lie), or in values that are given so. Takes a propagated computation.
std::vector<bool> ends_partial(const Program& program, const Computation& computation, const Shardings& root);

}  // namespace tessera
