// SPDX-License-Identifier: Apache-2.0
// The fraction of a processor that each thread of a rank has while all ranks compute. It is less than one if a
// machine has more threads than processors for them.
#pragma once

#include "tessera/collectives/process_group.h"

namespace tessera {

/// Returns the number of processors on which the ranks of this machine may run, divided by the number of their
/// threads, at most 1. This rank has `threads` threads. Collective.
double cpu_share(ProcessGroup& world, int threads = 1);

}  // namespace tessera
