// SPDX-License-Identifier: Apache-2.0
// Finds the parallel dims of gathers and scatters.
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Rewrites gathers and scatters in which one component of the indices is an iota along a dim of the indices, as in
/// x[arange(n), ids]. Entry i of that dim reads or writes row i of the operand, so the pass replaces the component by a
/// batch dim. Both dims can then have the same sharding. The pass requires that they have equal sizes and that other
/// components remain.
///
///   gather(x f32[8,9], concatenate(iota, ids) s32[8,2]), collapsed {0,1}, start_index_map {0,1}
///     ->  gather(x, ids s32[8,1]), collapsed {1}, start_index_map {1}, operand_batching_dims {0}
Program batch_indices(const Program& program);

}  // namespace tessera
