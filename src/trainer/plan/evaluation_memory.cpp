// SPDX-License-Identifier: Apache-2.0
#include "plan/evaluation_memory.h"

#include <memory>
#include <span>

#include "run_task.h"
#include "tessera/base/error.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera::trainer {
namespace {

// `arguments` are those of a dry run.
ExecutableMemory memory_of_step(const TrainingArguments& arguments, std::int64_t devices, const ExecutionOptions& how) {
  return as_planner([&] {
    plan_for_devices(devices);
    const std::unique_ptr<Task> task = make_task(arguments);
    return largest_memory(plan_training_step(arguments, *task), how);
  });
}

ExecutableMemory memory_of_evaluation(const TrainingArguments& arguments, std::int64_t devices,
                                      const ExecutionOptions& how) {
  return as_planner([&] {
    plan_for_devices(devices);
    const std::unique_ptr<Task> task = make_task(arguments);
    task->setup().network->eval();
    const std::int64_t rows = arguments.eval_batch_rows(task->setup().data_shards);
    // The plan computes these values, because they are alive.
    const LossParts parts = task->record_evaluation(BatchTensors::abstract(task->planned_batch(rows)));
    return planned_memory(plan_step().partitioned.program, how.ranks, how.schedule.nodes);
  });
}

bool evaluates(const TrainingArguments& arguments) {
  return arguments.do_eval || arguments.eval_on_start || arguments.eval_strategy != "no";
}

// 0 if the evaluation cannot be planned: its run checks the memory, too.
std::int64_t planned_bytes(const TrainingArguments& arguments) {
  const std::int64_t devices = device_count();
  try {
    return evaluation_bytes(arguments, devices, planned_execution(static_cast<int>(devices)));
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

std::int64_t evaluation_bytes(const TrainingArguments& arguments, std::int64_t devices, const ExecutionOptions& how) {
  TrainingArguments planned = arguments;
  planned.dry_run = true;
  planned.gradient_accumulation_steps = 1;  // no gradients exist during an evaluation
  const ExecutableMemory evaluation = memory_of_evaluation(planned, devices, how);
  const ExecutableMemory step = memory_of_step(planned, devices, how);
  return step.arguments + evaluation.held_bytes() - evaluation.arguments;
}

std::optional<std::int64_t> memory_for_evaluation(const TrainingArguments& arguments) {
  // An evaluation without training is the first program, whose run checks the memory.
  if (!arguments.do_train || !evaluates(arguments) || !arguments.per_device_eval_batch_size) return std::nullopt;
  const std::int64_t most_shards = device_count();
  if (arguments.eval_batch_rows(most_shards) <= arguments.micro_batch_rows(most_shards)) return std::nullopt;
  return memory_left(*joined_world());
}

void check_evaluation_memory(const TrainingArguments& arguments, std::int64_t bytes) {
  const auto world = joined_world();
  std::int64_t needed = 0;
  world->works_on(world->rank() == 0 ? "plans an evaluation" : "");
  if (world->rank() == 0) needed = planned_bytes(arguments);
  world->works_on("");
  if (world->size() > 1)
    world->broadcast(std::as_writable_bytes(std::span(&needed, 1)), 0, {0, "the memory of an evaluation"});
  require(
      needed <= bytes,
      "--per_device_eval_batch_size {}: an evaluation does not fit into memory: a rank needs {} and may have {} "
      "({}); possible remedies: a smaller --per_device_eval_batch_size, more ranks, --fsdp full_shard, a larger limit",
      arguments.per_device_eval_batch_size.value_or(0), bytes_text(needed), bytes_text(bytes),
      options().text("TESSERA_MEMORY_LIMIT").empty() ? "the memory of the machine or of its control group"
                                                     : "TESSERA_MEMORY_LIMIT");
}

}  // namespace tessera::trainer
