// SPDX-License-Identifier: Apache-2.0
// Virtual ranks: N ranks as threads of this process, each with its own RankContext. Deterministic; works with
// sanitizers.
//
//   run_virtual_ranks(4, [](ProcessGroup& world) { world.barrier(); });
#pragma once

#include <functional>

#include "tessera/collectives/process_group.h"

namespace tessera {

struct VirtualRankOptions {
  /// The node of each rank. By default all are on one node; TESSERA_NODE can also list one name for each rank. Groups
  /// across nodes use the hierarchical algorithms, and bytes between nodes count as mpi_payload.
  std::function<int(int rank)> node_of = {};
  /// A wrapper for every group between nodes, such as slow_down(group, links). None: as fast as memory.
  std::function<std::shared_ptr<ProcessGroup>(std::shared_ptr<ProcessGroup> group)> between_nodes = {};
};

/// Runs `fn` on ranks 0..count-1 and returns when all have ended. If a rank throws, the others stop in their next
/// collective, and the error of the lowest rank that failed by itself is rethrown as `rank 3 of 8: reason` (without a
/// prefix for one rank). If some members never join a collective, the error names them.
void run_virtual_ranks(int count, const std::function<void(ProcessGroup& world)>& fn,
                       const VirtualRankOptions& options = {});

/// A world of one rank, without threads or MPI.
std::shared_ptr<ProcessGroup> make_single_rank_world();

}  // namespace tessera
