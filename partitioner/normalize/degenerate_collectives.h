// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Collectives in which every device is alone give what they are given; the only device is number 0. Dumps of programs over axes of
/// size 1 hold both outside of manual regions.
Program without_degenerate_collectives(const Program& program);

/// The same of collectives without a channel outside of manual regions: they are over replicas, and of these there is one.
///   %r = f32[8] all-reduce(%x), replica_groups={{0}}, to_apply=%sum        is %x
Program without_replica_collectives(const Program& program);

}  // namespace tessera
