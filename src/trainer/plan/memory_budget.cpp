// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

#include "run_task.h"
#include "tessera/base/error.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/lowering/execution_plan.h"
#include "tessera/passes/passes.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/sharding/machine.h"

namespace tessera::trainer {
namespace {

constexpr std::int64_t kLeastBudget = 1;  // bytes: as little memory as possible

// The memory of the program that needs most, within the budget.
ExecutableMemory most_memory(const std::vector<LoweredProgram>& programs, std::int64_t devices, std::int64_t budget,
                             double* seconds = nullptr) {
  static const MachineModel kMachine = MachineModel::load("cpu-node");
  return as_planner([&] {
    plan_for_devices(devices);
    const ExecutionOptions how = ExecutionOptions::for_plan(static_cast<int>(devices));
    ExecutableMemory most;
    for (const LoweredProgram& program : programs) {
      const Program within =
          budget > 0 ? rematerialize(program.program, budget, how.lowering.offload) : program.program;
      const ExecutableMemory memory = planned_memory(within, how.ranks, how.schedule.nodes);
      if (memory.held_bytes() >= most.held_bytes()) most = memory;
      if (seconds == nullptr) continue;
      *seconds += modelled_seconds(remove_dead_code(within), kMachine) * static_cast<double>(program.runs);
    }
    return most;
  });
}

}  // namespace

BudgetPlanner::BudgetPlanner(TrainingArguments arguments, std::int64_t devices)
    : arguments_(std::move(arguments)), devices_(devices) {}

const std::vector<LoweredProgram>& BudgetPlanner::programs(bool checkpoints_blocks) {
  std::vector<LoweredProgram>& out = programs_[checkpoints_blocks ? 1 : 0];
  if (!out.empty()) return out;
  TrainingArguments arguments = arguments_;
  arguments.dry_run = true;
  arguments.gradient_checkpointing = checkpoints_blocks;
  as_planner([&] {
    plan_for_devices(devices_);
    ExecutionOptions how = ExecutionOptions::for_plan(static_cast<int>(devices_));
    how.lowering.memory_budget = 0;  // of TESSERA_MEMORY_BUDGET, which this plan replaces
    const std::unique_ptr<Task> task = make_task(arguments);
    for (const PlannedProgram& program : plan_training_step(arguments, *task))
      out.push_back({lower(program.partitioned.program, how.ranks, how.lowering), program.runs});
  });
  return out;
}

BudgetPoint BudgetPlanner::planned(bool checkpoints_blocks, std::int64_t budget) {
  BudgetPoint out{checkpoints_blocks, budget};
  const ExecutableMemory memory = most_memory(programs(checkpoints_blocks), devices_, budget, &out.seconds);
  out.held_bytes = memory.held_bytes();
  out.workspace = memory.workspace;
  out.file_bytes = memory.file;
  return out;
}

// The budget excludes the workspace of kernels, and the plan for the nodes of the job may need a little more or less
// memory than the budget allows.
BudgetPoint BudgetPlanner::nearest(bool checkpoints_blocks, std::int64_t bytes) {
  constexpr int kTries = 6;
  std::int64_t budget = std::max(kLeastBudget, bytes - workspace_);
  BudgetPoint out = planned(checkpoints_blocks, budget);
  // A slightly smaller budget may select other values that need no less memory, so the steps become larger.
  for (std::int64_t i = 1; i < kTries && out.held_bytes > bytes; ++i) {
    budget -= i * (out.held_bytes - bytes);
    if (budget < kLeastBudget) break;
    const BudgetPoint next = planned(checkpoints_blocks, budget);
    if (next.held_bytes < out.held_bytes) out = next;
  }
  return out;
}

std::vector<BudgetPoint> BudgetPlanner::curve() {
  constexpr int kParts = 4;
  BudgetPoint ends[2];
  (void)programs(false);
  on_threads(2, [&](std::size_t i) { ends[i] = planned(false, i == 0 ? 0 : kLeastBudget); });
  workspace_ = ends[0].workspace;
  const std::int64_t step = (ends[0].held_bytes - ends[1].held_bytes) / kParts;
  std::vector<BudgetPoint> between(step > 0 ? kParts - 1 : 0);
  on_threads(between.size(), [&](std::size_t i) {
    const std::size_t point = between.size() - 1 - i;  // the lowest first, because it takes the most time
    between[point] = nearest(false, ends[0].held_bytes - static_cast<std::int64_t>(point + 1) * step);
  });
  between.push_back(ends[1]);
  std::vector<BudgetPoint> out = {ends[0]};
  for (const BudgetPoint& point : between)
    if (point.held_bytes < out.back().held_bytes) out.push_back(point);
  return out;
}

BudgetPoint BudgetPlanner::best(std::int64_t bytes) {
  const BudgetPoint without = planned(false, 0);
  workspace_ = without.workspace;
  if (without.held_bytes <= bytes) return without;
  // Blocks that are computed again as a whole sometimes need less memory, but more time.
  BudgetPoint least;
  for (const bool checkpoints_blocks : {false, true}) {
    const BudgetPoint found = nearest(checkpoints_blocks, bytes);
    if (found.held_bytes <= bytes) return found;
    const BudgetPoint smallest = planned(checkpoints_blocks, kLeastBudget);
    if (smallest.held_bytes <= bytes) return smallest;
    if (least.held_bytes == 0 || smallest.held_bytes < least.held_bytes) least = smallest;
  }
  return least;
}

BudgetPoint BudgetPlanner::within(std::int64_t bytes) {
  const BudgetPoint found = best(bytes);
  if (found.held_bytes <= bytes) return found;
  const ExecutableMemory memory = most_memory(programs(found.checkpoints_blocks), devices_, found.budget);
  fail(
      "--max_memory_per_rank {}: the step does not fit even if all possible values are recomputed; the least memory is "
      "{} ({} bytes):\n{}possible remedies: more ranks, --fsdp full_shard, fewer rows in a batch",
      arguments_.max_memory_per_rank, bytes_text(found.held_bytes), found.held_bytes, memory.str());
}

std::string budget_text(const std::vector<BudgetPoint>& curve) {
  std::string out = "memory of a rank, modelled time of a step relative to no recomputation:\n";
  for (const BudgetPoint& point : curve)
    out += fmt::format("  {:>10}  {:.3f}{}\n", bytes_text(point.held_bytes), point.seconds / curve.front().seconds,
                       point.file_bytes > 0 ? fmt::format(", {} in a file", bytes_text(point.file_bytes)) : "");
  return out;
}

namespace {
std::string what_is_recomputed(const BudgetPoint& point) {
  const std::string file = point.file_bytes > 0 ? fmt::format(", {} are offloaded", bytes_text(point.file_bytes)) : "";
  if (point.checkpoints_blocks) return "every block is recomputed" + file;
  return (point.budget > 0 ? "some values are recomputed" : "nothing is recomputed") + file;
}
}  // namespace

TrainingArguments with_point(TrainingArguments arguments, const BudgetPoint& point) {
  options().set("TESSERA_MEMORY_BUDGET", std::to_string(point.budget));
  arguments.gradient_checkpointing = point.checkpoints_blocks;
  arguments.derived_flags.emplace_back("gradient_checkpointing");
  arguments.notes.push_back(fmt::format("--max_memory_per_rank {}: {}, planned with {} for a rank",
                                        arguments.max_memory_per_rank, what_is_recomputed(point),
                                        bytes_text(point.held_bytes)));
  return arguments;
}

TrainingArguments within_memory(TrainingArguments arguments) {
  const std::int64_t bytes = parse_bytes(arguments.max_memory_per_rank, "--max_memory_per_rank");
  const std::int64_t devices = device_count();
  const auto world = joined_world();
  BudgetPoint chosen;
  world->works_on(world->rank() == 0 ? "plans a step for --max_memory_per_rank" : "");
  if (world->rank() == 0) chosen = BudgetPlanner(arguments, devices).within(bytes);
  world->works_on("");
  if (world->size() > 1) world->broadcast(std::as_writable_bytes(std::span(&chosen, 1)), 0, {0, "the memory budget"});
  return with_point(std::move(arguments), chosen);
}

}  // namespace tessera::trainer
