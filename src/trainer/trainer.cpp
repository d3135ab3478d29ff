// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/trainer.h"

#include "tasks/model_task.h"
#include "tessera/base/error.h"
#include "training_loop.h"

namespace tessera::trainer {

struct Trainer::Owned {
  TrainingArguments arguments;
  std::unique_ptr<Task> task;
};

Trainer::Trainer(TrainerOptions options) : owned_(std::make_unique<Owned>()) {
  owned_->arguments = options.args;
  owned_->arguments.program = TrainingProgram::kModel;
  owned_->arguments.check();
  auto callbacks = options.callbacks;
  owned_->task = make_model_task(owned_->arguments, std::move(options));
  run_ = std::make_unique<Run>(owned_->arguments, *owned_->task);
  for (auto& callback : callbacks) add_callback(std::move(callback));
}

Trainer::Trainer(const TrainingArguments& arguments, Task& task,
                 std::vector<std::shared_ptr<TrainerCallback>> callbacks)
    : run_(std::make_unique<Run>(arguments, task)) {
  for (auto& callback : callbacks) add_callback(std::move(callback));
}

Trainer::~Trainer() = default;

void Trainer::add_callback(std::shared_ptr<TrainerCallback> callback) {
  require(callback != nullptr, "Trainer: a callback is null");
  run_->add_callback(std::move(callback));
}
TrainOutput Trainer::train() { return run_->train(); }
std::optional<Metrics> Trainer::evaluate() { return run_->evaluate(""); }
void Trainer::save_model(const std::string& folder) { run_->save_model(folder); }
int Trainer::run() { return run_->execute(); }
const TrainerState& Trainer::state() const { return run_->state(); }
Task& Trainer::task() const { return run_->task(); }

}  // namespace tessera::trainer
