// SPDX-License-Identifier: Apache-2.0
// Measures the links between nodes in the way in which collectives use them: in a ring of nodes, every rank sends to
// the rank with its place on the next node and receives from that on the previous one, all ranks of a node in parallel.
#pragma once

#include <vector>

#include "mpi/session.h"
#include "tessera/collectives/node_links.h"

namespace tessera::collectives {

/// Collective; `nodes` gives the node of each rank of `world`. The result is that of the slowest link, and equal on all
/// ranks. Takes a few milliseconds, or longer if the links are so slow that messages of 64 KiB take milliseconds.
NodeLinks measure_links(MPI_Comm world, int rank, const std::vector<int>& nodes);

}  // namespace tessera::collectives
