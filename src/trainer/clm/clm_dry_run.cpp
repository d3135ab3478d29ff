// SPDX-License-Identifier: Apache-2.0
// Plans the programs of a training step for any mesh, without storage and without execution.
#include <algorithm>
#include <optional>
#include <utility>

#include "clm/clm_plan.h"
#include "plan/memory_budget.h"
#include "tessera/base/files.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::trainer {

std::vector<PlannedProgram> plan_training_step(const TrainingArguments& arguments, ClmModel& setup) {
  const std::int64_t rows = arguments.micro_batch_rows(setup.data_shards);
  const Type batch = Type::array(DType::kS32, {rows, setup.block_size});
  const std::int64_t count = arguments.gradient_accumulation_steps;
  const auto label_count = static_cast<double>(rows * count * (setup.block_size - 1));
  constexpr std::int64_t kKinds = 3;
  const std::int64_t planned = std::min(count, kKinds);
  std::vector<PlannedProgram> out;
  Tensor loss;
  Tensor loss_sum = Tensor::scalar(DType::kF64, 0);
  for (std::int64_t i = 0; i < planned; ++i) {
    std::optional<MicroBatch> part;
    if (count > 1) part.emplace(i * rows);
    const Tensor tokens = Tensor::abstract(batch, "tokens");
    const Tensor labels = Tensor::abstract(batch, "labels");
    loss = record_micro_batch(setup, tokens, labels, Tensor::scalar(DType::kF64, label_count));
    if (count > 1) loss_sum = loss_sum + std::exchange(loss, {});  // only the sum is a result of a step
    if (i + 1 == planned) break;
    out.push_back({plan_step().partitioned, i == 0 ? 1 : count - 2});
    skip_step();
  }
  const Tensor norm = record_update(arguments, setup);
  if (count == 1) loss_sum = loss_sum + std::exchange(loss, {});  // as in StepRunner: the order of ops has effects
  out.push_back({plan_step().partitioned, 1});
  return out;
}

ExecutionOptions planned_execution(int devices) {
  const auto world = joined_world();
  return world->size() == devices && devices > 1 ? ExecutionOptions::from_environment(devices, world->nodes())
                                                 : ExecutionOptions::for_plan(devices);
}

namespace {

std::string plan_report(const TrainingArguments& arguments, ClmModel& setup) {
  const std::vector<PlannedProgram> programs = plan_training_step(arguments, setup);
  const ExecutionOptions how = planned_execution(static_cast<int>(device_count()));
  ExecutableMemory most;
  double flops = 0;
  for (const PlannedProgram& program : programs) {
    const Program& local = program.partitioned.program;
    const ExecutableMemory memory = planned_memory(local, how.ranks, how.schedule.nodes);
    if (memory.held_bytes() > most.held_bytes()) most = memory;
    flops += execution_stats(local, how).flops_per_device * static_cast<double>(program.runs);
  }
  return memory_report(setup, most) + largest_values_report(most) +
         fmt::format("one device executes {:.4g} FLOP per step\n", flops) +
         collective_report(programs.back().partitioned.notes);
}

}  // namespace

namespace {

// Prints the curve of --max_memory_per_rank, and the plan of the point that it chooses.
int dry_run_within_memory(TrainingArguments arguments) {
  const std::int64_t bytes = parse_bytes(arguments.max_memory_per_rank, "--max_memory_per_rank");
  BudgetPlanner planner(arguments, mesh_of(arguments).device_count());
  write_standard_output(budget_text(planner.curve()) + "\n");
  arguments = with_point(std::move(arguments), planner.within(bytes));
  arguments.max_memory_per_rank.clear();
  return dry_run_clm(arguments);
}

}  // namespace

int dry_run_clm(const TrainingArguments& arguments) {
  if (RankContext::current().rank() != 0) return 0;  // one rank prints the plan
  plan_for_devices(device_count());
  if (!arguments.max_memory_per_rank.empty()) return dry_run_within_memory(arguments);
  ClmModel setup = make_clm_model(arguments);
  const std::string text =
      banner(arguments, setup) + "\n" + sharding_report(setup) + "\n" + plan_report(arguments, setup);
  write_standard_output(text);
  return 0;
}

}  // namespace tessera::trainer
