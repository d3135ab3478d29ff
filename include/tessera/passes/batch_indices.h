// SPDX-License-Identifier: Apache-2.0
// Finds the parallel dims of gathers and scatters.
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Replaces a component of the indices of a gather or scatter that counts along a dim of the indices (an iota, as in
/// x[arange(n), ids]) by a batch dim: entry i of that dim then reads or writes row i of the operand, so both may be
/// sharded alike. Only if the operand's dim has as many elements, and if other components remain.
///
///   gather(x f32[8,9], concatenate(iota, ids) s32[8,2]), collapsed {0,1}, start_index_map {0,1}
///     ->  gather(x, ids s32[8,1]), collapsed {1}, start_index_map {1}, operand_batching_dims {0}
Program batch_indices(const Program& program);

}  // namespace tessera
