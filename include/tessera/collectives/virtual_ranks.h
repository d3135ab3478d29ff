// SPDX-License-Identifier: Apache-2.0
// Virtual ranks: N ranks as threads of this process, each with its own RankContext. Deterministic, fit for sanitizers.
//
//   run_virtual_ranks(4, [](ProcessGroup& world) { world.barrier(); });
#pragma once

#include <functional>

#include "tessera/collectives/process_group.h"

namespace tessera {

struct VirtualRankOptions {
  /// The node a rank lives on; all on one unless given here or by TESSERA_NODE (a list, one name a rank). Groups across nodes take the hierarchical paths, and what passes
  /// between nodes counts as mpi_payload.
  std::function<int(int rank)> node_of = {};
  /// What every group between nodes is wrapped in, such as slow_down(group, links); none: it is as fast as memory.
  std::function<std::shared_ptr<ProcessGroup>(std::shared_ptr<ProcessGroup> group)> between_nodes = {};
};

/// Runs `fn` on ranks 0..count-1 and returns when all ended. A rank that throws stops the others in their next collective;
/// then the error of the lowest rank that failed by itself is rethrown as `rank 3 of 8: reason` (no prefix for one rank).
/// A collective that some members will never join is an error that names them.
void run_virtual_ranks(int count, const std::function<void(ProcessGroup& world)>& fn,
                       const VirtualRankOptions& options = {});

/// A world of one rank, without threads or MPI.
std::shared_ptr<ProcessGroup> make_single_rank_world();

}  // namespace tessera
