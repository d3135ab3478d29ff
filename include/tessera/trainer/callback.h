// SPDX-License-Identifier: Apache-2.0
// Callbacks: user code at the events of a training run, with the names and the order of Hugging Face's Trainer.
//
//   struct StopAtLoss : TrainerCallback {
//     void on_log(const TrainerEvent& event) override { event.control.should_training_stop = *event.log->loss < 0.1; }
//   };
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tessera/base/json_object.h"
#include "tessera/trainer/task.h"
#include "tessera/trainer/trainer_state.h"

namespace tessera::trainer {

/// The next actions of the run. Callbacks may set and clear the fields.
struct TrainerControl {
  bool should_training_stop = false;  // after this update
  bool should_log = false;            // after this update
  bool should_evaluate = false;
  bool should_save = false;
};

/// The arguments of a callback.
struct TrainerEvent {
  const TrainingArguments& arguments;
  const TrainerState& state;
  TrainerControl& control;
  TrainingSetup& setup;              // the model, its optimizer and mesh
  const LogEntry* log = nullptr;     // of on_log and on_evaluate
  const Metrics* metrics = nullptr;  // of on_evaluate
};

/// Every rank calls the functions, and all ranks must set the same fields of the control. The host reads losses a few
/// updates after they were computed, so on_log is called later than on_step_end of the same update.
class TrainerCallback {
 public:
  virtual ~TrainerCallback() = default;
  virtual void on_train_begin(const TrainerEvent& /*event*/) {}
  virtual void on_epoch_begin(const TrainerEvent& /*event*/) {}
  virtual void on_step_begin(const TrainerEvent& /*event*/) {}
  /// Called after an update has been started, and before its log entry, evaluation and checkpoint.
  virtual void on_step_end(const TrainerEvent& /*event*/) {}
  virtual void on_log(const TrainerEvent& /*event*/) {}
  virtual void on_evaluate(const TrainerEvent& /*event*/) {}
  /// Called after a checkpoint has been started.
  virtual void on_save(const TrainerEvent& /*event*/) {}
  virtual void on_epoch_end(const TrainerEvent& /*event*/) {}
  virtual void on_train_end(const TrainerEvent& /*event*/) {}

  /// The name of the callback's state in trainer_state.json; "": the callback has no state.
  [[nodiscard]] virtual std::string_view name() const { return ""; }
  /// The state that a checkpoint stores, and that a resumed run passes to set_state().
  [[nodiscard]] virtual JsonObject state() const { return JsonObject(); }
  virtual void set_state(const JsonObject& /*state*/) {}
};

/// Ends the training after `patience` evaluations in a row whose metric is not better than the best one by more than
/// `threshold`. The metric is that of --metric_for_best_model.
class EarlyStoppingCallback final : public TrainerCallback {
 public:
  explicit EarlyStoppingCallback(std::int64_t patience = 1, double threshold = 0);
  void on_evaluate(const TrainerEvent& event) override;
  [[nodiscard]] std::string_view name() const override { return "EarlyStoppingCallback"; }
  [[nodiscard]] JsonObject state() const override;
  void set_state(const JsonObject& state) override;

 private:
  std::int64_t patience_;
  double threshold_;
  std::int64_t without_progress_ = 0;
  std::optional<double> best_;
};

}  // namespace tessera::trainer
