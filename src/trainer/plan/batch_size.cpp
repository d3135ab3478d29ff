// SPDX-License-Identifier: Apache-2.0
#include "plan/batch_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "plan/memory_budget.h"
#include "run/resume.h"
#include "run_task.h"
#include "tessera/base/error.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera::trainer {

BatchPlanner::BatchPlanner(TrainingArguments arguments, std::int64_t devices, ExecutionOptions how)
    : arguments_(std::move(arguments)), devices_(devices), how_(std::move(how)) {
  arguments_.dry_run = true;
}

TrainingArguments BatchPlanner::with_rows(std::int64_t rows) const {
  TrainingArguments out = arguments_;
  out.per_device_train_batch_size = rows;
  return out;
}

ExecutableMemory BatchPlanner::memory(std::int64_t rows) const {
  const TrainingArguments arguments = with_rows(rows);
  return as_planner([&] {
    plan_for_devices(devices_);
    const std::unique_ptr<Task> task = make_task(arguments);
    return largest_memory(plan_training_step(arguments, *task), how_);
  });
}

PlannedBatch BatchPlanner::planned(std::int64_t rows) const {
  const std::string& most = arguments_.max_memory_per_rank;
  if (most.empty()) return {rows, memory(rows).held_bytes()};
  BudgetPlanner budgets(with_rows(rows), devices_);
  return {rows, budgets.best(parse_bytes(most, "--max_memory_per_rank")).held_bytes};
}

bool BatchPlanner::halve(BatchChoice& choice, std::int64_t bytes) const {
  if (choice.chosen.held_bytes <= bytes || choice.chosen.rows == 1) return false;
  choice.larger = choice.chosen;
  choice.chosen = planned(choice.chosen.rows / 2);
  return true;
}

BatchChoice BatchPlanner::halved(const PlannedBatch& first, std::int64_t bytes) const {
  BatchChoice out{first};
  while (halve(out, bytes)) continue;
  return out;
}

void BatchPlanner::refuse(std::int64_t rows, std::int64_t bytes, const std::string& limit) const {
  // With --max_memory_per_rank, this is the error of the budget.
  if (!arguments_.max_memory_per_rank.empty()) (void)BudgetPlanner(with_rows(rows), devices_).within(bytes);
  const ExecutableMemory needed = memory(rows);
  fail(
      "--auto_find_batch_size: a step with {} row for each data shard does not fit: the plan of a rank needs {} ({} "
      "bytes), and it may have {} ({}):\n{}possible remedies: more ranks, --fsdp full_shard, --gradient_checkpointing "
      "true, a larger limit",
      rows, bytes_text(needed.held_bytes()), needed.held_bytes(), bytes_text(bytes), limit, needed.str());
}

namespace {

// What a rank allocates in addition until its first step: data, batches, compiled programs.
constexpr std::int64_t kReserve = 16 << 20;
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// The memory that the plan of a rank may have, and where it comes from.
struct MemoryOfRank {
  std::int64_t bytes = kUnlimited;
  bool is_flag = false;
};

std::string limit_name(const TrainingArguments& arguments, const MemoryOfRank& memory) {
  if (memory.is_flag) return "--max_memory_per_rank " + arguments.max_memory_per_rank;
  const std::string& given = options().text("TESSERA_MEMORY_LIMIT");
  const bool differs = !arguments.dry_run && joined_world()->size() > 1;  // between ranks
  if (!given.empty()) return differs ? "TESSERA_MEMORY_LIMIT, the least of all ranks" : "TESSERA_MEMORY_LIMIT=" + given;
  return "the memory of the machine or of its control group";
}

// Collective, except in a dry run.
MemoryOfRank memory_of_a_rank(const TrainingArguments& arguments, const ExecutionOptions& how) {
  const std::optional<std::int64_t> left =
      arguments.dry_run ? memory_left(how.ranks, how.schedule.nodes) : memory_left(*joined_world());
  MemoryOfRank out;
  if (left) out.bytes = std::max<std::int64_t>(0, *left - kReserve);
  if (arguments.max_memory_per_rank.empty()) return out;
  const std::int64_t flag = parse_bytes(arguments.max_memory_per_rank, "--max_memory_per_rank");
  return flag <= out.bytes ? MemoryOfRank{flag, true} : out;
}

std::string choice_text(const BatchChoice& choice, std::int64_t bytes, const std::string& limit) {
  const std::string most = bytes == kUnlimited ? "any amount" : bytes_text(bytes);
  if (choice.larger.rows == 0)
    return fmt::format("--auto_find_batch_size keeps {} rows for each data shard: a rank needs {} and may have {} ({})",
                       choice.chosen.rows, bytes_text(choice.chosen.held_bytes), most, limit);
  return fmt::format(
      "--auto_find_batch_size chose {} rows for each data shard: a rank needs {}, with {} rows {}, and may have {} "
      "({})",
      choice.chosen.rows, bytes_text(choice.chosen.held_bytes), choice.larger.rows,
      bytes_text(choice.larger.held_bytes), most, limit);
}

// Gives all ranks the value of rank 0. Collective, except in a dry run.
template <class T>
void share_value(const TrainingArguments& arguments, T& value, const char* what) {
  const auto world = joined_world();
  if (!arguments.dry_run && world->size() > 1)
    world->broadcast(std::as_writable_bytes(std::span(&value, 1)), 0, {0, what});
}

// The rows of the batches of the run that is continued, over all data shards; 0: a new run.
std::int64_t rows_of_checkpoint(const TrainingArguments& arguments) {
  std::int64_t rows = 0;
  if (joined_world()->rank() == 0) rows = rows_of_resumed_run(arguments);
  share_value(arguments, rows, "the batch of the checkpoint");
  return rows;
}

}  // namespace

TrainingArguments with_largest_batch(TrainingArguments arguments) {
  if (const std::int64_t rows = rows_of_checkpoint(arguments); rows > 0) {
    arguments.per_device_train_batch_size.reset();
    arguments.auto_find_batch_size = false;
    arguments.global_batch_size = rows;
    arguments.notes.push_back(fmt::format(
        "--auto_find_batch_size: the run continues with its batches of {} rows over all data shards", rows));
    return arguments;
  }
  const std::int64_t devices = mesh_of(arguments).device_count();
  const ExecutionOptions how = planned_execution(static_cast<int>(devices));
  BatchPlanner planner(arguments, devices, how);
  const bool plans = joined_world()->rank() == 0;
  BatchChoice choice;
  // Planning takes memory, too, so the first plan comes before the measurement.
  if (plans) choice.chosen = planner.planned(arguments.micro_batch_rows(1));
  const MemoryOfRank memory = memory_of_a_rank(arguments, how);
  const std::int64_t bytes = memory.bytes;
  const std::string limit = limit_name(arguments, memory);
  if (!arguments.max_memory_per_rank.empty() && !memory.is_flag) {
    // Values are recomputed for the smaller memory.
    arguments.max_memory_per_rank = std::to_string(std::max<std::int64_t>(1, bytes));
    planner = BatchPlanner(arguments, devices, how);
    if (plans && choice.chosen.held_bytes > bytes) choice.chosen = planner.planned(choice.chosen.rows);
  }
  // The other ranks wait for one plan at a time, because a wait must not reach TESSERA_COLLECTIVE_TIMEOUT.
  for (bool was_halved = true; was_halved;) {
    joined_world()->works_on(plans ? "plans a batch that fits into the memory" : "");
    if (plans) was_halved = planner.halve(choice, bytes);
    joined_world()->works_on("");
    share_value(arguments, was_halved, "the plan of a batch");
  }
  if (plans && choice.chosen.held_bytes > bytes) {
    if (!memory.is_flag) arguments.max_memory_per_rank.clear();  // the error names the limit that binds
    BatchPlanner(arguments, devices, how).refuse(choice.chosen.rows, bytes, limit);
  }
  share_value(arguments, choice, "the largest batch");
  arguments.per_device_train_batch_size = choice.chosen.rows;
  arguments.notes.push_back(choice_text(choice, bytes, limit));
  return arguments;
}

}  // namespace tessera::trainer
