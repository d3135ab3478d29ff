// SPDX-License-Identifier: Apache-2.0
// From a per-device program to the lowered program and its schedule. The runtime executes an ExecutionPlan.
// `tessera stats` and the dry run count the bytes and FLOPs of an ExecutionPlan, so they report those that the runtime
// executes.
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

  /// The options that the environment variables TESSERA_… set. `nodes` as in ScheduleOptions.
  static ExecutionOptions from_environment(int ranks, std::vector<int> nodes);
  /// The options for a plan of `ranks` ranks, which need not exist. Their nodes are those in TESSERA_NODE, or else one
  /// node.
  static ExecutionOptions for_plan(int ranks);
  /// The hash of everything except ranks and nodes.
  [[nodiscard]] std::size_t hash() const;
};

/// A lowered program with its schedule.
struct ExecutionPlan {
  Program program;  // lowered
  std::shared_ptr<const Schedule> schedule;
};

/// Lowers and schedules a per-device program. The process keeps its most recent plans, so that ranks that are threads
/// share one plan. Any thread may call this.
ExecutionPlan plan_execution(const Program& program, const ExecutionOptions& options);

}  // namespace tessera
