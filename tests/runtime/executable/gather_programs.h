// SPDX-License-Identifier: Apache-2.0
// Programs of all-gathers of which a node has one result, and how a rank runs them against lockstep evaluation.
#pragma once

#include <memory>
#include <string>

#include "tessera/collectives/node_memory.h"
#include "tessera/collectives/process_group.h"
#include "tessera/collectives/slow_group.h"
#include "tessera/ir/program.h"
#include "tessera/schedule/schedule.h"

namespace tessera::testing {

/// Shards of `rows` x `columns` on all ranks: the parameter, which is donated, and two values made of it are gathered one after the other, less
/// the last row (it pads, as a vocabulary does on two ranks).
Program gathered_in_turn(int ranks, const std::string& element, int rows, int columns);
/// An embedding: 16 rows are looked up in the gathered table of `rows` x 8 on all ranks, less the last row.
Program looked_up(int ranks, int rows);
/// Four ranks; shards of whole pages, of others and of few bytes, gathered over all ranks, over pairs, or over both (`one_group` false).
Program random_gathers(unsigned seed, bool one_group);

ScheduleOptions on_one_node(int ranks);

/// Runs the program `steps` times, the first results being the next arguments, and expects what lockstep evaluation gives. Every rank of
/// the world calls it.
void expect_lockstep(const Program& program, ProcessGroup& world, const SlowLinks& links, int steps);

/// As long as it lives, the calling rank cannot map what lies side by side.
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
