// SPDX-License-Identifier: Apache-2.0
// The training loop of every task.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flags/intervals.h"
#include "plan/evaluation_memory.h"
#include "run/best_model.h"
#include "run/host_share.h"
#include "run/log_files.h"
#include "run/resume.h"
#include "run/run_figures.h"
#include "run/run_saver.h"
#include "run/step_runner.h"
#include "run/stop_signals.h"
#include "tessera/optim/schedule.h"
#include "tessera/runtime/metrics/compute_peak.h"
#include "tessera/trainer/progress.h"
#include "tessera/trainer/trainer.h"

namespace tessera::trainer {

class Trainer::Run {
 public:
  Run(const TrainingArguments& arguments, Task& task);

  void add_callback(std::shared_ptr<TrainerCallback> callback) { callbacks_.push_back(std::move(callback)); }
  TrainOutput train();
  /// Prints the result after `where`. Nullopt if a signal ended the evaluation.
  std::optional<Metrics> evaluate(const std::string& where);
  void save_model(const std::string& folder);
  /// The exit status of the program.
  int execute();
  [[nodiscard]] const TrainerState& state() const { return state_; }
  [[nodiscard]] Task& task() const { return task_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Event = void (TrainerCallback::*)(const TrainerEvent&);

  // The updates since the last entry of the log.
  struct Window {
    Clock::time_point start = Clock::now();
    double loss = 0;
    std::int64_t losses = 0;  // that `loss` contains: with a loss scale, only those that are finite
    std::int64_t steps = 0;
    std::int64_t earlier_steps = 0;  // of these, the updates of the run that this run continues
    std::int64_t batches = 0;        // micro-batches of this run
  };
  // A sum of losses, and the state of the run after the last update in it. It is read some updates later.
  struct Reading {
    LossSum losses;
    Tensor norm;
    std::int64_t steps = 0;
    std::int64_t batches = 0;  // micro-batches
    std::int64_t last_step = 0;
    double epoch = 0;
    double rate = 0;
    std::int64_t tokens = 0;
    Clock::time_point time{};  // after the last update was started; it has ended if updates are not run beside the host
    bool logs = false;
  };

  // training_loop.cpp
  TrainOutput run_updates();
  [[nodiscard]] std::vector<data::Batch> next_batches();
  void update(std::int64_t n);
  void follow_update(double rate, double epoch_before);
  void decide(double epoch_before);
  [[nodiscard]] bool is_due(const std::string& strategy, std::int64_t steps, double epoch_before) const;
  void evaluate_and_save();
  bool evaluate_update(bool saves);
  void evaluate_missed();
  [[nodiscard]] bool saves_at_early_end() const;
  void begin_output();
  [[nodiscard]] JsonObject arguments_json() const;  // which can be given as a file of flags
  void save_arguments() const;
  void save_tokenizer(const std::string& folder) const;
  // train_results.json, eval_results.json and all_results.json, unless a signal has stopped the run.
  void save_results(const TrainOutput& output) const;
  void save_results(const LogEntry& evaluation, double seconds) const;
  void save_results(const std::string& split, const std::function<void(JsonObject&)>& set) const;
  void call(Event event, const LogEntry* log = nullptr, const Metrics* metrics = nullptr);
  [[nodiscard]] bool saves() const { return is_master_ && !arguments_.output_dir.empty(); }
  /// An evaluation leaves the state of the run in the folder as it is.
  [[nodiscard]] bool writes_state() const { return saves() && (arguments_.do_train || steps_of_run_ > 0); }
  void check_held_out_samples() const;

  // training_checkpoints.cpp
  void save_run();
  void finish_save_after_error();
  void resume();
  [[nodiscard]] ResumeState state_of_data() const;
  bool is_stopped();
  [[nodiscard]] std::string stop_message() const;

  // training_log.cpp
  void note_reading(double rate, bool logs);
  void take_readings(std::int64_t except);
  void take(const Reading& reading);
  void check_loss(const Reading& reading, double sum);
  void check_scaled_losses(const Reading& reading, std::int64_t losses);
  void check_norm();
  void log(const Reading& reading);
  [[nodiscard]] std::string line_of(const LogEntry& entry, double seconds) const;
  void add_to_log(const LogEntry& entry);
  void show_progress();
  void report_program();
  void report_work();
  void report_scale();
  void print(const std::string& text);
  /// `step  20  `, as in the lines of the log.
  [[nodiscard]] std::string step_text() const;
  [[nodiscard]] std::string resumed_text() const;
  /// What this run leaves in output_dir; "" if nothing.
  [[nodiscard]] std::string saved_text() const;
  [[nodiscard]] std::optional<double> utilization(double units_per_second) const;
  OnProgress showing(std::string what, std::string unit);

  const TrainingArguments& arguments_;
  bool is_master_;
  Task& task_;
  TrainingSetup& setup_;
  ComputePeak peak_;
  std::int64_t rows_;
  data::Loader& loader_;
  std::int64_t steps_;
  Intervals intervals_;
  double units_per_batch_;  // of a micro-batch
  double units_per_step_;   // of an update with all micro-batches
  std::optional<double> flops_per_step_;
  optim::Schedule schedule_;
  StepRunner runner_;
  std::optional<ExpectedEvaluation> expected_evaluation_;  // until the first update
  ProgressBar bar_;
  TrainerState state_;
  TrainerControl control_;
  std::vector<std::shared_ptr<TrainerCallback>> callbacks_;
  StopWatcher stop_watcher_;
  int stop_signal_ = 0;
  RunSaver saver_;
  BestModel best_;
  LogFiles files_;
  StateWriter state_writer_;
  bool has_lost_output_ = false;  // standard output cannot be written
  bool has_saved_model_ = false;  // in output_dir

  StartedUpdate started_;           // of the last update
  std::int64_t unnoted_steps_ = 0;  // updates since the last reading
  std::int64_t unnoted_batches_ = 0;
  std::deque<Reading> readings_;
  Tensor last_norm_;  // of the gradients, up to the last reading
  Window window_;
  Clock::time_point start_;
  Clock::time_point read_at_;
  double shown_loss_ = 0;
  double shown_speed_ = 0;
  ExposedCommunication exposed_before_;  // at the last entry of the log
  double exposed_of_update_ = 0;         // seconds
  double exposed_part_ = 0;              // of the time between the last two entries of the log
  HostShare host_;                       // of the updates after the first one
  double epochs_before_ = 0;             // that the loader does not count, because of --ignore_data_skip
  double loss_of_run_ = 0;
  std::int64_t losses_of_run_ = 0;  // that loss_of_run_ contains
  std::int64_t lost_losses_ = 0;    // with a loss scale: the last ones, none of which is finite
  std::int64_t steps_of_run_ = 0;
  std::int64_t batches_of_run_ = 0;
  std::int64_t first_program_ = 0;  // of this training
  bool has_reported_ = false;
  ProcessMemory process_;
  bool begins_output_ = true;       // until the first update has ended
  bool evaluation_due_ = false;     // after the last update; remains true if a signal prevents it
  bool save_due_ = false;           // after the last update, also without a signal
  std::int64_t saved_update_ = -1;  // the last one whose save has begun
  bool drops_save_ = false;         // at an error, because the loss after the saved update is not finite
  bool has_best_model_ = false;     // the model has the values of the best checkpoint, not those of the last update
  std::string resumed_from_;        // "": a new run
  std::int64_t data_hash_ = 0;
};

}  // namespace tessera::trainer
