// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Replaces collectives whose groups have one device by their operands, and partition-id in a program for one device by
/// 0. Dumps of programs over axes of size 1 contain both outside of manual regions.
Program without_degenerate_collectives(const Program& program);

/// The same for collectives without a channel outside of manual regions: their groups consist of replicas, of which
/// there is one.
///   %r = f32[8] all-reduce(%x), replica_groups={{0}}, to_apply=%sum        is %x
Program without_replica_collectives(const Program& program);

}  // namespace tessera
