// SPDX-License-Identifier: Apache-2.0
#include "plan/step_plan.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "tessera/frontend/tensor/functions.h"

namespace tessera::trainer {

std::vector<PlannedProgram> plan_training_step(const TrainingArguments& arguments, Task& task) {
  const std::int64_t rows = arguments.micro_batch_rows(task.setup().data_shards);
  const data::Batch batch = task.planned_batch(rows);
  const std::optional<double> labels_of_batch = task.label_count(batch);
  const std::int64_t count = arguments.gradient_accumulation_steps;
  constexpr std::int64_t kKinds = 3;
  const std::int64_t planned = std::min(count, kKinds);
  std::vector<PlannedProgram> out;
  const Tensor labels =
      labels_of_batch ? Tensor::scalar(DType::kF64, *labels_of_batch * static_cast<double>(count)) : Tensor();
  LossSum losses_before = LossSum::zero(task.setup().scaler != nullptr);
  LossSum losses_after;
  Tensor norm;
  if (count == 1) {
    const Tensor loss = task.record(BatchTensors::abstract(batch), labels, count);
    norm = record_update(arguments, task.setup());
    losses_after = std::exchange(losses_before, {}).plus(loss);  // as in StepRunner: the order of ops has effects
  } else {
    MicroBatchLosses losses(task, labels, count, std::exchange(losses_before, {}));
    for (std::int64_t i = 0; i < planned; ++i) {
      const MicroBatch part(i * rows);
      losses.record(BatchTensors::abstract(batch));
      if (i + 1 == planned) break;
      out.push_back({plan_step().partitioned, i == 0 ? 1 : count - 2});
      skip_step();
    }
    losses_after = losses.finish();
    norm = record_update(arguments, task.setup());
  }
  out.push_back({plan_step().partitioned, 1});
  return out;
}

ExecutionOptions planned_execution(int devices) {
  const auto world = joined_world();
  return world->size() == devices && devices > 1 ? ExecutionOptions::from_environment(devices, world->nodes())
                                                 : ExecutionOptions::for_plan(devices);
}

ExecutableMemory largest_memory(const std::vector<PlannedProgram>& programs, const ExecutionOptions& how) {
  ExecutableMemory most;
  for (const PlannedProgram& program : programs) {
    const ExecutableMemory memory = planned_memory(program.partitioned.program, how.ranks, how.schedule.nodes);
    if (memory.held_bytes() > most.held_bytes()) most = memory;
  }
  return most;
}

void on_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!error) error = std::current_exception();
        next = count;
      }
  };
  const std::size_t threads = std::min<std::size_t>(count, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> running;
  try {
    for (std::size_t i = 1; i < threads; ++i) running.emplace_back(loop);
  } catch (const std::system_error&) {  // no more threads are allowed: the others do the work
  }
  loop();
  for (std::thread& thread : running) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace tessera::trainer
