// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/trainer.h"

#include <exception>
#include <utility>

#include "run/log_files.h"
#include "run/output_folder.h"
#include "tasks/model_task.h"
#include "tessera/base/error.h"
#include "tessera/frontend/execution/runtime.h"
#include "training_loop.h"

namespace tessera::trainer {

struct Trainer::Owned {
  TrainingArguments arguments;
  std::unique_ptr<Task> task;
  bool has_trained = false;

  // Programs lock their folder themselves (run_task.cpp). Errors are thrown on all ranks.
  std::unique_ptr<OutputFolder> output_folder(bool trains) {
    TrainingArguments given = arguments;
    given.do_train = trains;
    if (has_trained) given.resume_from_checkpoint = "true";  // the run in the folder is this one
    std::unique_ptr<OutputFolder> out;
    std::string problem;
    try {
      out = std::make_unique<OutputFolder>(given);
      check_log_files(given);
    } catch (const std::exception& error) {  // also of std::filesystem
      problem = error.what();
    }
    for (const std::string& text : gather_texts(*joined_world(), problem))
      if (!text.empty()) throw Error(text);
    has_trained = has_trained || trains;
    return out;
  }
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
TrainOutput Trainer::train() {
  const auto output = owned_ ? owned_->output_folder(true) : nullptr;
  return run_->train();
}
std::optional<Metrics> Trainer::evaluate() { return run_->evaluate(""); }
void Trainer::save_model(const std::string& folder) { run_->save_model(folder); }
int Trainer::run() {
  const auto output = owned_ ? owned_->output_folder(owned_->arguments.do_train) : nullptr;
  return run_->execute();
}
const TrainerState& Trainer::state() const { return run_->state(); }
Task& Trainer::task() const { return run_->task(); }

}  // namespace tessera::trainer
