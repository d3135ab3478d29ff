// SPDX-License-Identifier: Apache-2.0
// What the links between nodes are like, measured as collectives use them: in a ring of nodes every rank sends to the rank at its place of the
// next node while it receives from that of the one before, all ranks of a node at once.
#pragma once

#include <vector>

#include "mpi/session.h"
#include "tessera/collectives/node_links.h"

namespace tessera::collectives {

/// Collective; `nodes` says where each rank of `world` lives. The slowest link counts, and all ranks get the same numbers. Takes a few
/// milliseconds, longer where 64 KiB do.
NodeLinks measure_links(MPI_Comm world, int rank, const std::vector<int>& nodes);

}  // namespace tessera::collectives
