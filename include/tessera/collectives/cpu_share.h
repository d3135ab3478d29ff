// SPDX-License-Identifier: Apache-2.0
// What part of a processor each thread of a rank has when all ranks compute: less than one where a machine has more threads than
// processors for them.
#pragma once

#include "tessera/collectives/process_group.h"

namespace tessera {

/// 0 < share <= 1: the processors that the ranks of this machine may run on together, divided among the threads of all of them, of
/// which this rank has `threads`. Collective.
double cpu_share(ProcessGroup& world, int threads = 1);

}  // namespace tessera
