// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "clm/clm_plan.h"
#include "tessera/base/error.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/sharding/machine.h"

namespace tessera::trainer {
namespace {

struct PlannedPoint {
  BudgetPoint point;
  ExecutableMemory memory;
};

PlannedPoint plan_point(TrainingArguments arguments, std::int64_t devices, std::int64_t blocks) {
  static const MachineModel kMachine = MachineModel::load("cpu-node");
  arguments.dry_run = true;
  arguments.gradient_checkpointing = blocks > 0;
  arguments.checkpointed_blocks = blocks;
  return as_planner([&] {
    plan_for_devices(devices);
    ClmModel setup = make_clm_model(arguments);
    const ExecutionOptions how = ExecutionOptions::for_plan(static_cast<int>(devices));
    PlannedPoint out;
    out.point.blocks = blocks;
    for (const PlannedProgram& program : plan_training_step(arguments, setup)) {
      const Program& local = program.partitioned.program;
      const ExecutableMemory memory = planned_memory(local, how.ranks, how.schedule.nodes);
      if (memory.held_bytes() >= out.memory.held_bytes()) out.memory = memory;
      out.point.seconds += program_cost(local, kMachine).seconds * static_cast<double>(program.runs);
    }
    out.point.peak_bytes = out.memory.held_bytes();
    return out;
  });
}

std::int64_t block_count(TrainingArguments arguments, std::int64_t devices) {
  arguments.dry_run = true;
  return as_planner([&] {
    plan_for_devices(devices);
    return static_cast<std::int64_t>(block_paths(*make_clm_model(arguments).network).size());
  });
}

}  // namespace

std::vector<BudgetPoint> budget_curve(const TrainingArguments& arguments, std::int64_t devices) {
  constexpr std::int64_t kParts = 4;
  const std::int64_t all = block_count(arguments, devices);
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i <= kParts; ++i)
    if (const std::int64_t blocks = all * i / kParts; counts.empty() || blocks > counts.back())
      counts.push_back(blocks);
  std::vector<BudgetPoint> out(counts.size());
  on_threads(counts.size(), [&](std::size_t i) { out[i] = plan_point(arguments, devices, counts[i]).point; });
  return out;
}

BudgetPoint cheapest_point(const TrainingArguments& arguments, std::int64_t devices,
                           const std::vector<BudgetPoint>& curve, std::int64_t bytes) {
  const auto fits = [&](const BudgetPoint& point) { return point.peak_bytes <= bytes; };
  const auto first = std::find_if(curve.begin(), curve.end(), fits);
  if (first == curve.end()) {
    const auto least = std::min_element(curve.begin(), curve.end(),
                                        [](const auto& a, const auto& b) { return a.peak_bytes < b.peak_bytes; });
    fail(
        "--max_memory_per_rank {}: no recomputation of blocks makes the step fit; the least memory is {} ({} bytes), "
        "with {} "
        "blocks recomputed:\n{}what helps: more ranks, --fsdp full_shard, fewer rows in a batch",
        arguments.max_memory_per_rank, bytes_text(least->peak_bytes), least->peak_bytes, least->blocks,
        plan_point(arguments, devices, least->blocks).memory.str());
  }
  BudgetPoint best = *first;
  if (first == curve.begin()) return best;
  // More recomputed blocks need less memory.
  std::int64_t too_few = std::prev(first)->blocks;
  while (best.blocks - too_few > 1) {
    const BudgetPoint middle = plan_point(arguments, devices, (best.blocks + too_few) / 2).point;
    if (fits(middle))
      best = middle;
    else
      too_few = middle.blocks;
  }
  return best;
}

std::string budget_text(const std::vector<BudgetPoint>& curve) {
  std::string out = "recomputed blocks, memory of a rank, time of a step relative to none recomputed:\n";
  for (const BudgetPoint& point : curve)
    out += fmt::format("  {:>4}  {:>10}  {:.3f}\n", point.blocks, bytes_text(point.peak_bytes),
                       point.seconds / curve.front().seconds);
  return out;
}

TrainingArguments within_memory(TrainingArguments arguments) {
  const std::int64_t bytes = parse_bytes(arguments.max_memory_per_rank, "--max_memory_per_rank");
  const std::int64_t devices = device_count();
  const auto world = joined_world();
  BudgetPoint chosen;
  if (world->rank() == 0) chosen = cheapest_point(arguments, devices, budget_curve(arguments, devices), bytes);
  if (world->size() > 1)
    world->broadcast(std::as_writable_bytes(std::span(&chosen, 1)), 0, {0, "the recomputed blocks"});
  arguments.gradient_checkpointing = chosen.blocks > 0;
  arguments.checkpointed_blocks = chosen.blocks;
  arguments.notes.push_back(
      fmt::format("--max_memory_per_rank {}: {} blocks are recomputed, planned with {} for a rank",
                  arguments.max_memory_per_rank, chosen.blocks, bytes_text(chosen.peak_bytes)));
  return arguments;
}

}  // namespace tessera::trainer
