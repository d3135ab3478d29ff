// SPDX-License-Identifier: Apache-2.0
// From a per-device program to the lowered program and its schedule. The runtime executes an ExecutionPlan, and code
// that reports bytes or FLOPs (`stats`, the dry run) counts one, so both have the same numbers.
#pragma once

#include <memory>
#include <vector>

#include "tessera/lowering/lowering.h"
#include "tessera/schedule/schedule.h"

namespace tessera {

struct ExecutionOptions {
  int ranks = 1;
  LoweringOptions lowering;
  ScheduleOptions schedule;

  /// The options in the variables TESSERA_…. `nodes`: the node of each rank, if ranks of a node can read each other's
  /// memory in place; else empty.
  static ExecutionOptions from_environment(int ranks, std::vector<int> nodes);
  /// For ranks that need not exist: on the nodes in TESSERA_NODE, else all on one node.
  static ExecutionOptions for_plan(int ranks);
  /// The hash of everything except ranks and nodes.
  [[nodiscard]] std::size_t hash() const;
};

struct ExecutionPlan {
  Program program;  // lowered
  std::shared_ptr<const Schedule> schedule;
};

ExecutionPlan plan_execution(const Program& program, const ExecutionOptions& options);

}  // namespace tessera
