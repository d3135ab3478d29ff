// SPDX-License-Identifier: Apache-2.0
// Virtual ranks: N ranks as threads of this process, each with its own RankContext. They are deterministic and work
// with sanitizers.
//
//   run_virtual_ranks(4, [](ProcessGroup& world) { world.barrier(); });
#pragma once

#include <functional>
#include <string_view>

#include "tessera/collectives/process_group.h"

namespace tessera {

struct VirtualRankOptions {
  /// The node of each rank. By default, TESSERA_NODE lists one name for each rank, or all ranks are on one node. Groups
  /// across nodes use the hierarchical algorithms, and bytes between nodes count as mpi_payload.
  std::function<int(int rank)> node_of = {};
  /// A wrapper for every group between nodes, such as slow_down(group, links). If it is not set, these groups are as
  /// fast as memory.
  std::function<std::shared_ptr<ProcessGroup>(std::shared_ptr<ProcessGroup> group)> between_nodes = {};
};

/// Runs `fn` on ranks 0..count-1 and returns when all have ended. If a rank throws, the others stop in their next
/// collective, and the error of the lowest rank that failed by itself is rethrown as `rank 3 of 8: reason`, or as
/// `reason` if `count` is 1. If some members never join a collective, the error names them.
void run_virtual_ranks(int count, const std::function<void(ProcessGroup& world)>& fn,
                       const VirtualRankOptions& options = {});

/// The number of virtual ranks of this process: `given`, the value of `flag` (0 without the flag), or else
/// CPU_NUM_DEVICES, as under PJRT. Returns 0 if the process is one rank. Errors: both are given and differ; there are
/// virtual ranks, but mpirun started several processes.
int virtual_rank_count(std::string_view flag, int given);

/// Whether mpirun has started several processes.
bool mpirun_started_several();

/// A world of one rank, without threads or MPI.
std::shared_ptr<ProcessGroup> make_single_rank_world();

}  // namespace tessera
