// SPDX-License-Identifier: Apache-2.0
// From a per-device program to what a rank executes: the lowered program and its schedule. The runtime executes an ExecutionPlan, and
// whatever reports bytes or FLOPs (`stats`, a dry run) counts one, so that both have the same numbers.
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

  /// As the variables TESSERA_… say. `nodes`: of each rank, where ranks of a node read each other's memory in place; else empty.
  static ExecutionOptions from_environment(int ranks, std::vector<int> nodes);
  /// For ranks that need not exist: on the nodes that TESSERA_NODE lists, else all on one.
  static ExecutionOptions for_plan(int ranks);
  /// Of all but ranks and nodes.
  [[nodiscard]] std::size_t hash() const;
};

struct ExecutionPlan {
  Program program;  // lowered
  std::shared_ptr<const Schedule> schedule;
};

ExecutionPlan plan_execution(const Program& program, const ExecutionOptions& options);

}  // namespace tessera
