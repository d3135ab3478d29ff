// SPDX-License-Identifier: Apache-2.0
// The programs of a training step, planned and not executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/rank_context.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/lowering/execution_plan.h"
#include "tessera/trainer/task.h"

namespace tessera::trainer {

/// A program of a training step. With gradient accumulation there is one for each micro-batch; the last one contains the
/// update.
struct PlannedProgram {
  Partitioned partitioned;
  std::int64_t runs = 1;  // in a step
};

/// Plans the programs of the first micro-batch, of one in the middle, and of the last, as StepRunner runs them. The last
/// update of an epoch may have only one micro-batch; its program is not planned. `task` was made for a dry run.
std::vector<PlannedProgram> plan_training_step(const TrainingArguments& arguments, Task& task);

/// The ranks of this job if the plan is for this number of ranks, or else ranks on the nodes that TESSERA_NODE specifies.
ExecutionOptions planned_execution(int devices);

/// The memory of the program that needs most. For code that plans.
ExecutableMemory largest_memory(const std::vector<PlannedProgram>& programs, const ExecutionOptions& how);

/// The paths of the repeated blocks of a model, each with a dot at its end.
std::vector<std::string> block_paths(nn::PretrainedModel& model);

/// Calls `work` for each index below `count`, on one thread for each processor. Throws the first error after all threads
/// have ended.
void on_threads(std::size_t count, const std::function<void(std::size_t)>& work);

/// Runs `fn` as the only rank of a job, which plans and does not execute.
template <class Fn>
auto as_planner(Fn&& fn) {
  RankContext context(0, 1);
  const RankScope scope(context);
  return fn();
}

}  // namespace tessera::trainer
