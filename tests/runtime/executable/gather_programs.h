// SPDX-License-Identifier: Apache-2.0
// Programs with all-gathers of which a node has one result, and a comparison of a rank's results with lockstep
// evaluation.
#pragma once

#include <memory>
#include <string>

#include "tessera/collectives/node_memory.h"
#include "tessera/collectives/process_group.h"
#include "tessera/collectives/slow_group.h"
#include "tessera/ir/program.h"
#include "tessera/schedule/schedule.h"

namespace tessera::testing {

/// Shards of `rows` x `columns` on all ranks: gathers the donated parameter and two values computed from it one after
/// another, without the last row (which is padding, as for a vocabulary on two ranks).
Program gathered_in_turn(int ranks, const std::string& element, int rows, int columns);
/// An embedding: looks up 16 rows in the gathered table of `rows` x 8 for each rank, without the last row.
Program looked_up(int ranks, int rows);
/// For four ranks: shards of complete pages, of other sizes and of few bytes, gathered over all ranks, over pairs, or
/// over both (if not `one_group`).
Program random_gathers(unsigned seed, bool one_group);

ScheduleOptions on_one_node(int ranks);

/// Runs the program `steps` times, where the first results are the next arguments, and compares with lockstep
/// evaluation. Collective over the world.
void expect_lockstep(const Program& program, ProcessGroup& world, const SlowLinks& links, int steps);

/// While it exists, the calling rank cannot map memory of its peers side by side.
class NoMappings {
 public:
  NoMappings();
  ~NoMappings();
  NoMappings(const NoMappings&) = delete;
  NoMappings& operator=(const NoMappings&) = delete;

 private:
  std::shared_ptr<NodeMemory> real_;
};

}  // namespace tessera::testing
