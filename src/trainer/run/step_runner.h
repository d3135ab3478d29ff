// SPDX-License-Identifier: Apache-2.0
// Runs the updates of a training through compile().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/trainer/task.h"

namespace tessera::trainer {

/// An update that was started. Reading a value waits for it.
struct StartedUpdate {
  LossSum losses;  // of the updates since the last restart_loss_sum()
  Tensor norm;     // of the gradients
};

class StepRunner {
 public:
  StepRunner(const TrainingArguments& arguments, Task& task);
  /// Starts the update of the micro-batches. Collective.
  StartedUpdate run(const std::vector<data::Batch>& batches);
  /// The next update begins a new sum of losses.
  void restart_loss_sum();

 private:
  std::vector<Tensor> record(const std::vector<Tensor>& given);
  // With one micro-batch, an update is one compiled function.
  StartedUpdate run_compiled(const data::Batch& batch);
  StartedUpdate run_traced(const std::vector<data::Batch>& batches);
  [[nodiscard]] Tensor label_count(const std::vector<data::Batch>& batches) const;

  const TrainingArguments& arguments_;
  Task& task_;
  bool leaves_out_;  // losses that are not finite, because there is a loss scale
  LossSum losses_;
  BatchTensors batch_;  // the names of the arrays, for the function
  bool has_labels_ = false;
  CompiledFunction update_;
};

}  // namespace tessera::trainer
