// SPDX-License-Identifier: Apache-2.0
// Computes between reshapes on unmerged dims.
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Removes pairs of reshapes of which one merges dims and the other splits them again. The ops between the two compute
/// on the unmerged dims, so that each of these dims can stay sharded. A merged dim has one sharding, which cannot
/// divide two of the original dims at once unless the major one has one element per tile.
///
///   %m = f32[128,32] reshape(%x f32[8,16,32])
///   %d = f32[128,64] dot(%m, %w)                  ->      %d = f32[8,16,64] dot(%x, %w)
///   %y = f32[8,16,64] reshape(%d)
///
/// A reduction over the merged dim, or a dot that contracts it, counts as the end of the merged dim, too. Handles dots,
/// reductions of one operand, elementwise ops, broadcasts, transposes, iotas along other dims, and reshapes of other
/// dims. The ops of a merged dim stay unchanged if another op, an annotation, or the root reads or has the merged dim.
Program unmerge_dims(const Program& program);

}  // namespace tessera
