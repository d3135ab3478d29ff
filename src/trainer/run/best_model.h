// SPDX-License-Identifier: Apache-2.0
// --load_best_model_at_end and --metric_for_best_model.
#pragma once

#include <optional>
#include <string>

#include "run/run_saver.h"
#include "tessera/trainer/arguments.h"
#include "tessera/trainer/task.h"
#include "tessera/trainer/trainer_state.h"

namespace tessera::trainer {

/// Keeps the best checkpoint and its metric in the state of the run. Only complete checkpoints count.
class BestModel {
 public:
  BestModel(const TrainingArguments& arguments, TrainerState& state, RunSaver& saver)
      : arguments_(arguments), state_(state), saver_(saver) {}

  /// Whether the metric of the evaluation is better than the best one so far.
  [[nodiscard]] bool is_better(const Metrics& result) const;
  /// Compares the model that is about to be saved with the best one. Waits for the save before. Collective.
  void note(const Metrics& result);
  /// Waits for the save in flight. If it failed, the checkpoint before it is the best one again. Collective.
  void finish();
  /// The same, unless the best checkpoint is that of this update, whose save has not begun. Collective.
  void finish_earlier() {
    if (noted_step_ != state_.global_step) finish();
  }
  /// After the run was continued from `checkpoint`: finds the best checkpoint beside it, if the folder has been moved.
  void find_beside(const std::string& checkpoint);
  /// Gives the model the values of the best checkpoint, and returns a line for the user. If there is none, as when every
  /// metric was NaN, or it is damaged or missing, returns "" after a warning, and the model keeps its values. Collective.
  std::string load(TrainingSetup& setup) const;

 private:
  [[nodiscard]] bool is_best_of_run(const std::string& checkpoint) const;

  const TrainingArguments& arguments_;
  TrainerState& state_;
  RunSaver& saver_;
  std::int64_t noted_step_ = -1;  // of the best checkpoint; -1: it is complete
  std::optional<double> metric_before_;
  std::string checkpoint_before_;
};

}  // namespace tessera::trainer
