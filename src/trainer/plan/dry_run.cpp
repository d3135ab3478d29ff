// SPDX-License-Identifier: Apache-2.0
#include "plan/dry_run.h"

#include <memory>
#include <string>
#include <utility>

#include "plan/batch_size.h"
#include "plan/memory_budget.h"
#include "plan/step_plan.h"
#include "run_task.h"
#include "tessera/base/files.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"

namespace tessera::trainer {
namespace {

std::string plan_report(const TrainingArguments& arguments, Task& task, const ProcessMemory& process) {
  const std::vector<PlannedProgram> programs = plan_training_step(arguments, task);
  const ExecutionOptions how = planned_execution(static_cast<int>(device_count()));
  const ExecutableMemory most = largest_memory(programs, how);
  double flops = 0;
  for (const PlannedProgram& program : programs)
    flops += execution_stats(program.partitioned.program, how).flops_per_device * static_cast<double>(program.runs);
  return memory_report(task.setup(), most, process) + largest_values_report(most) +
         fmt::format("one device executes {:.4g} FLOP per step\n", flops) +
         collective_report(programs.back().partitioned.notes);
}

// Prints the curve of --max_memory_per_rank. Returns the arguments of the point that it chooses.
TrainingArguments within_printed_curve(TrainingArguments arguments) {
  const std::int64_t bytes = parse_bytes(arguments.max_memory_per_rank, "--max_memory_per_rank");
  BudgetPlanner planner(arguments, mesh_of(arguments).device_count());
  write_standard_output(budget_text(planner.curve()) + "\n");
  return with_point(std::move(arguments), planner.within(bytes));
}

}  // namespace

int dry_run(TrainingArguments arguments) {
  if (RankContext::current().rank() != 0) return 0;  // one rank prints the plan
  const ProcessMemory process = measure_process("at the start of this dry run");
  plan_for_devices(device_count());
  if (arguments.auto_find_batch_size) arguments = with_largest_batch(std::move(arguments));
  if (!arguments.max_memory_per_rank.empty()) arguments = within_printed_curve(std::move(arguments));
  const std::unique_ptr<Task> task = make_task(arguments);
  if (arguments.has_overrides) write_standard_output("configuration\n" + arguments.configuration() + "\n");
  const std::string head = banner(arguments, task->setup(), task->model_text(), task->rows_text());
  write_standard_output(head + "\n" + sharding_report(task->setup()) + "\n" + plan_report(arguments, *task, process));
  return 0;
}

}  // namespace tessera::trainer
