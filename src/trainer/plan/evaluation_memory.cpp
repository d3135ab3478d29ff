// SPDX-License-Identifier: Apache-2.0
#include "plan/evaluation_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "plan/step_plan.h"
#include "tessera/base/error.h"
#include "tessera/frontend/execution/eager_mode.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/execution/step.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/sharding/placement.h"

namespace tessera::trainer {
namespace {

// The model is in evaluation mode, and what is recorded is discarded at the end.
class RecordedEvaluation {
 public:
  explicit RecordedEvaluation(nn::PretrainedModel& model) : model_(model) { model_.eval(); }
  ~RecordedEvaluation() {
    trace().clear(false);
    model_.train();
  }
  RecordedEvaluation(const RecordedEvaluation&) = delete;
  RecordedEvaluation& operator=(const RecordedEvaluation&) = delete;

 private:
  nn::PretrainedModel& model_;
};

std::int64_t bytes_of_rank(const data::Batch& batch) {
  std::int64_t out = 0;
  for (const data::Batch::Field& field : batch.fields)
    out += shard_type(field.type, Sharding::from_spec(batch.mesh, field.spec, field.type.ndim())).byte_size();
  return out;
}

bool has_recorded_values() {
  const auto nodes = trace().live_nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return !node->has_data(); });
}

// Gives all ranks what rank 0 has planned, without the list of the largest values. Collective.
ExpectedProgram shared(const EvaluationMemory& planned, std::string name) {
  const ExecutableMemory& program = planned.program;
  std::array<std::int64_t, 7> numbers = {program.arguments, program.results,   program.aliased, program.arena,
                                         program.constants, program.workspace, planned.batch};
  const auto world = joined_world();
  if (world->size() > 1)
    world->broadcast(std::as_writable_bytes(std::span(numbers)), 0, {0, "the memory of an evaluation"});
  ExpectedProgram out;
  out.name = std::move(name);
  out.memory.arguments = numbers[0];
  out.memory.results = numbers[1];
  out.memory.aliased = numbers[2];
  out.memory.arena = numbers[3];
  out.memory.constants = numbers[4];
  out.memory.workspace = numbers[5];
  out.inputs = numbers[6];
  return out;
}

}  // namespace

EvaluationMemory evaluation_memory(const TrainingArguments& arguments, Task& task, bool plans) {
  const data::Batch batch = task.planned_batch(arguments.eval_batch_rows(task.setup().data_shards));
  const RecordedEvaluation scope(*task.setup().network);
  // The plan computes these values, because they are alive.
  const LossParts parts = task.record_evaluation(BatchTensors::abstract(batch));
  if (!plans) return {};
  const ExecutionOptions how = planned_execution(static_cast<int>(device_count()));
  return {planned_memory(plan_step().partitioned.program, how.ranks, how.schedule.nodes), bytes_of_rank(batch)};
}

bool has_larger_evaluation(const TrainingArguments& arguments, std::int64_t data_shards) {
  // The program of a Trainer may call evaluate() at any time.
  const bool evaluates = arguments.do_eval || arguments.eval_on_start || arguments.eval_strategy != "no" ||
                         arguments.program == TrainingProgram::kModel;
  return evaluates && arguments.eval_batch_rows(data_shards) > arguments.micro_batch_rows(data_shards);
}

ExpectedEvaluation::ExpectedEvaluation(const TrainingArguments& arguments, Task& task) {
  const bool is_larger = task.held_out() > 0 && has_larger_evaluation(arguments, task.setup().data_shards);
  if (!is_larger || experimental::is_eager_mode()) return;
  if (has_recorded_values()) mark_step();  // the first update would do it
  wait_device_ops();
  const auto world = joined_world();
  if (!memory_left(*world)) return;
  EvaluationMemory planned;
  const bool plans = world->rank() == 0;
  world->works_on(plans ? "plans an evaluation" : "");
  try {
    planned = evaluation_memory(arguments, task, plans);
  } catch (const Error&) {  // it cannot be planned; its run checks the memory, too
  }
  world->works_on("");
  expect_program(
      shared(planned, fmt::format("--per_device_eval_batch_size {}: an evaluation",
                                  arguments.eval_batch_rows(task.setup().data_shards) / task.setup().data_shards)));
  is_expected_ = true;
}

ExpectedEvaluation::~ExpectedEvaluation() {
  if (!is_expected_) return;
  try {
    wait_device_ops();
  } catch (const std::exception&) {  // after an error that is thrown already
  }
  expect_program(std::nullopt);
}

}  // namespace tessera::trainer
