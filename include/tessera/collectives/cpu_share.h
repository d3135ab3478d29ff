// SPDX-License-Identifier: Apache-2.0
// The fraction of a processor that each thread of a rank has while all ranks compute. It is less than 1 if the ranks of
// a machine have more threads than processors.
#pragma once

#include "tessera/collectives/process_group.h"

namespace tessera {

/// Returns the number of processors on which the ranks of this machine may run, divided by the number of their threads,
/// but at most 1. `threads` is the number of threads of this rank. Collective.
double cpu_share(ProcessGroup& world, int threads = 1);

}  // namespace tessera
