// SPDX-License-Identifier: Apache-2.0
// The training loop of every task.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "run/best_model.h"
#include "run/resume.h"
#include "run/run_figures.h"
#include "run/run_saver.h"
#include "run/stop_signals.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/optim/schedule.h"
#include "tessera/runtime/metrics/compute_peak.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tessera/trainer/progress.h"
#include "tessera/trainer/task.h"
#include "tessera/trainer/trainer_state.h"

namespace tessera::trainer {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Run {
 public:
  Run(const TrainingArguments& arguments, Task& task)
      : arguments_(arguments),
        is_master_(RankContext::current().rank() == 0),
        task_(task),
        setup_(task.setup()),
        peak_(measure_compute_peak(*joined_world(), peak_dtype(arguments, setup_),
                                   static_cast<int>(options().integer("TESSERA_NUM_THREADS")))),
        rows_(arguments.micro_batch_rows(setup_.data_shards)),
        loader_(task.loader()),
        steps_(arguments.total_steps(loader_.len())),
        units_per_step_(static_cast<double>(rows_ * arguments.gradient_accumulation_steps * task.units_per_row())),
        flops_per_step_(task.flops(units_per_step_)),
        schedule_(optim::schedule_from_name(arguments.lr_scheduler_type), arguments.learning_rate,
                  arguments.warmup_count(steps_), steps_),
        bar_(stderr, arguments.disable_tqdm || !is_master_ ? 0 : 50),
        saver_(arguments, is_master_),
        best_(arguments, state_, saver_) {
    check_held_out_samples();
    resume();
    state_.max_steps = steps_;
    state_.num_train_epochs = arguments.num_train_epochs;
    state_.logging_steps = arguments.logging_steps;
    state_.train_batch_size = rows_;
  }

  /// Returns the program's exit status.
  int execute() {
    watch_stop_signals();
    print(banner(arguments_, setup_, task_.model_text(), task_.rows_text()));
    if (!resumed_from_.empty())
      print(fmt::format("resumed    {}: step {} of {}\n", resumed_from_, state_.global_step, steps_));
    print(peak_line(peak_));
    print(sharding_report(setup_));
    if (arguments_.do_train) train();
    if (arguments_.load_best_model_at_end && !is_stopped())
      if (const std::string line = best_.load(setup_); !line.empty()) print(line);
    if (arguments_.do_train && !arguments_.output_dir.empty() && !is_stopped())
      save_pretrained(*setup_.network, arguments_.output_dir);
    bar_.finish();
    if (arguments_.do_eval && task_.held_out() > 0 && !is_stopped()) evaluate("");
    if (!is_stopped()) finish_task();
    bar_.finish();
    if (saves()) state_.save(arguments_.output_dir);
    if (stop_signal_ == 0) return 0;
    if (is_master_) log_line(LogLevel::kError, stop_message());
    constexpr int kKilledBySignal = 128;
    return kKilledBySignal + stop_signal_;
  }

 private:
  void check_held_out_samples() const {
    require(
        task_.held_out() > 0 || arguments_.eval_strategy == "no",
        "--eval_strategy {} needs held-out samples, and there are none; give a longer --validation_file or a larger "
        "--validation_split_percentage",
        arguments_.eval_strategy);
  }

  // ---- one update -------------------------------------------------------------------------------------------------------

  // Adds the loss to unread_loss_.
  void step() {
    std::vector<data::Batch> batches;
    std::optional<double> labels = 0;
    for (std::int64_t i = 0; i < arguments_.gradient_accumulation_steps; ++i) {
      batches.push_back(loader_.next_batch());
      const auto more = task_.label_count(batches.back());
      labels = labels && more ? std::optional(*labels + *more) : std::nullopt;
    }
    schedule_.apply(*setup_.optimizer);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      std::optional<MicroBatch> part;
      if (batches.size() > 1) part.emplace(static_cast<std::int64_t>(i) * rows_);
      unread_loss_ = unread_loss_ + task_.record(batches[i], labels, isize(batches));
      if (i + 1 < batches.size()) mark_step();
    }
    gradient_norm_ = record_update(arguments_, setup_);
    mark_step();
    ++unread_steps_;
  }

  // ---- the loop ---------------------------------------------------------------------------------------------------------

  // The updates since the last entry of the log.
  struct Window {
    Clock::time_point start = Clock::now();
    double exposed_before = exposed_communication_seconds();
    double loss = 0;
    std::int64_t steps = 0;
    std::int64_t earlier_steps = 0;  // of these, the updates of the run that this run continues
  };

  void train() {
    const std::size_t first_program = compiled_programs().size();
    start_ = read_at_ = Clock::now();
    window_ = {.loss = resumed_loss_, .steps = resumed_steps_, .earlier_steps = resumed_steps_};
    for (std::int64_t n = state_.global_step + 1; n <= steps_ && stop_signal_ == 0; ++n) {
      const double rate = schedule_.rate(n - 1);
      const double epoch_before = state_.epoch;
      step();
      state_.global_step = n;
      state_.epoch = loader_.epochs();
      state_.total_flos += flops_per_step_.value_or(0);
      ++window_.steps;
      if (compiled_programs().size() > first_program && !std::exchange(has_reported_, true))
        print(memory_report(setup_, most_memory_of_steps(first_program)) +
              collective_report(compiled_programs().back().notes));
      const bool is_last = is_stopped() || n == steps_;
      const bool logs = is_last || n % arguments_.logging_steps == 0 || (n == 1 && arguments_.logging_first_step);
      if (logs || n == 1 || n % kStepsBetweenReadings == 0) read_loss();
      if (is_master_ && !arguments_.disable_tqdm)
        bar_.update({n, steps_, seconds_since(start_), shown_loss_, shown_speed_, utilization(shown_speed_)});
      if (logs) log(rate);
      saver_.poll();
      evaluate_and_save(epoch_before);
      save_from_time_to_time();
    }
    best_.finish();
  }

  // Called between updates, batches and tokens by every rank, so that all ranks stop at the same point.
  bool is_stopped() {
    if (stop_signal_ == 0) stop_signal_ = agreed_stop_signal(*joined_world());
    return stop_signal_ != 0;
  }

  // Whether something is due that happens at the end, and every `steps` updates or after every epoch.
  [[nodiscard]] bool is_due(const std::string& strategy, std::int64_t steps, double epoch_before) const {
    if (strategy == "no") return false;
    if (state_.global_step == steps_) return true;
    if (strategy == "epoch") return std::floor(state_.epoch) > std::floor(epoch_before);
    return state_.global_step % steps == 0;
  }

  // After an update.
  void evaluate_and_save(double epoch_before) {
    const bool saves =
        !arguments_.output_dir.empty() && is_due(arguments_.save_strategy, arguments_.save_steps, epoch_before);
    if (task_.held_out() > 0 && stop_signal_ == 0 &&
        is_due(arguments_.eval_strategy, arguments_.evaluation_interval(), epoch_before)) {
      read_loss();
      const auto result = evaluate(fmt::format("step {:>6}  ", state_.global_step));
      if (result && saves && arguments_.compares_checkpoints()) best_.note(*result);
    }
    const bool saves_at_stop = stop_signal_ != 0 && !arguments_.output_dir.empty() && arguments_.save_strategy != "no";
    if (saves || saves_at_stop) save_run();
  }

  [[nodiscard]] std::string stop_message() const {
    return fmt::format("stopped by {} after step {} of {}{}", signal_name(stop_signal_), state_.global_step, steps_,
                       saver_.saved_step() == state_.global_step && !arguments_.save_only_model
                           ? "; continue with --resume_from_checkpoint true"
                       : saves() ? "; trainer_state.json is written"
                                 : "");
  }

  void save_run() {
    read_loss();
    ResumeState run = state_of_data();
    run.samples = loader_.state().samples;
    run.unlogged_loss = window_.loss;
    run.unlogged_steps = window_.steps;
    saver_.begin(state_.global_step, checkpoint_of(arguments_, setup_, state_, run), state_.best_model_checkpoint);
  }

  [[nodiscard]] ResumeState state_of_data() const {
    return {.data_seed = arguments_.data_seed.value_or(arguments_.seed),
            .samples_per_epoch = loader_.samples_per_epoch()};
  }

  // Continues the run of a checkpoint.
  void resume() {
    ResumeState run = state_of_data();
    resumed_from_ = resume_run(arguments_, setup_, state_, run);
    if (resumed_from_.empty()) return;
    if (is_master_ && state_.train_batch_size != rows_)
      log_warning("the run had batches of {0} rows, now they have {1}; --global_batch_size {0} continues it as it was",
                  state_.train_batch_size, rows_);
    loader_.seek(run.samples);
    resumed_loss_ = run.unlogged_loss;
    resumed_steps_ = run.unlogged_steps;
  }

  // Waits until the updates so far have finished.
  void read_loss() {
    if (unread_steps_ == 0) return;
    const double sum = unread_loss_.item();
    const std::int64_t last = state_.global_step;
    require(std::isfinite(sum), "the loss is {} at {}", sum, [&] {
      return unread_steps_ == 1 ? fmt::format("step {}", last)
                                : fmt::format("one of the steps {} to {}", last - unread_steps_ + 1, last);
    });
    const auto steps = static_cast<double>(unread_steps_);
    shown_loss_ = sum / steps;
    shown_speed_ = units_per_step_ * steps / seconds_since(read_at_);
    window_.loss += sum;
    read_at_ = Clock::now();
    unread_loss_ = Tensor::scalar(DType::kF64, 0);
    unread_steps_ = 0;
  }

  [[nodiscard]] std::optional<double> utilization(double units_per_second) const {
    if (!flops_per_step_) return std::nullopt;
    return *flops_per_step_ / units_per_step_ * units_per_second / peak_.flops_per_second;
  }

  // ---- output -----------------------------------------------------------------------------------------------------------

  void print(const std::string& text) const {
    if (is_master_) write_standard_output(text + "\n");
  }

  // A job of one rank does not communicate.
  static std::string exposed_text(const LogEntry& entry) {
    if (job_info().ranks == 1) return "";
    return fmt::format("  exposed communication {:.3g} s", *entry.exposed_communication_seconds);
  }

  void log(double learning_rate) {
    const auto steps = static_cast<double>(window_.steps - window_.earlier_steps);
    const double speed = units_per_step_ * steps / seconds_since(window_.start);
    const double exposed = exposed_communication_seconds();
    const LogEntry entry{.step = state_.global_step,
                         .epoch = state_.epoch,
                         .loss = window_.loss / static_cast<double>(window_.steps),
                         .learning_rate = learning_rate,
                         .grad_norm = gradient_norm_.item(),
                         .tokens_per_second = speed,
                         .mfu = utilization(speed),
                         .exposed_communication_seconds = (exposed - window_.exposed_before) / steps};
    if (is_master_)
      bar_.print(fmt::format("step {:>6}  loss {:.4f}  learning_rate {:.3g}  grad_norm {:.3f}  {} {}/s{}{}", entry.step,
                             *entry.loss, *entry.learning_rate, *entry.grad_norm, short_number(speed), task_.unit(),
                             entry.mfu ? fmt::format("  MFU {:.1f}%", 100 * *entry.mfu) : "", exposed_text(entry)));
    add_to_log(entry);
    if (is_master_ && arguments_.tpu_metrics_debug) bar_.print(metrics_report());
    window_ = Window();
  }

  // With --logging_dir, an entry is also a line of log.jsonl.
  void add_to_log(const LogEntry& entry) {
    state_.log_history.push_back(entry);
    if (arguments_.logging_dir.empty() || !is_master_) return;
    make_folder(arguments_.logging_dir);
    append_file(arguments_.logging_dir + "/log.jsonl", json_line(entry));
  }

  [[nodiscard]] bool saves() const { return is_master_ && !arguments_.output_dir.empty(); }

  // A launcher may give a rank less time to end than a step takes. Therefore the saved state is never much older than a
  // second.
  void save_from_time_to_time() {
    constexpr double kSeconds = 1;
    constexpr double kPausesPerSave = 20;  // saving takes longer as the log grows
    if (!saves() || seconds_since(saved_at_) < std::max(kSeconds, kPausesPerSave * save_seconds_)) return;
    const auto start = Clock::now();
    try {
      state_.save(arguments_.output_dir);
    } catch (const Error& error) {  // only the last save, at the end, must succeed
      if (!std::exchange(has_warned_, true)) log_warning("{}", error.what());
    }
    saved_at_ = Clock::now();
    save_seconds_ = seconds_since(start);
  }

  // Prints the result after `where`. Nullopt if a signal ended the evaluation.
  std::optional<Metrics> evaluate(const std::string& where) {
    auto result =
        trainer::evaluate(task_, arguments_.eval_batch_rows(setup_.data_shards),
                          arguments_.max_eval_samples.value_or(task_.held_out()), showing("held out", "samples"));
    bar_.erase();
    if (!result) return result;
    print(fmt::format("{}held out: {}", where, result->text));
    LogEntry entry{.step = state_.global_step, .epoch = state_.epoch, .eval_loss = result->loss};
    entry.eval_accuracy = result->find("accuracy");
    add_to_log(entry);
    return result;
  }

  // Shows the progress if the progress bar is on, and ends the work after a signal.
  OnProgress showing(std::string what, std::string unit) {
    return [this, what = std::move(what), unit = std::move(unit)](std::int64_t done, std::int64_t total) {
      if (is_master_ && !arguments_.disable_tqdm) bar_.status(fmt::format("{}: {} of {} {}", what, done, total, unit));
      return !is_stopped();
    };
  }

  void finish_task() {
    const std::string text = task_.finish(showing("sample", "tokens"));
    bar_.erase();
    if (!text.empty()) print(text);
  }

  // Reading a value makes the host wait and costs a transfer.
  static constexpr std::int64_t kStepsBetweenReadings = 4;

  const TrainingArguments& arguments_;
  bool is_master_;
  Task& task_;
  TrainingSetup& setup_;
  ComputePeak peak_;
  std::int64_t rows_;
  data::Loader& loader_;
  std::int64_t steps_;
  double units_per_step_;
  std::optional<double> flops_per_step_;
  optim::Schedule schedule_;
  ProgressBar bar_;
  TrainerState state_;
  int stop_signal_ = 0;
  RunSaver saver_;
  BestModel best_;

  Tensor unread_loss_ = Tensor::scalar(DType::kF64, 0);  // added up on the device over unread_steps_ updates
  std::int64_t unread_steps_ = 0;
  Tensor gradient_norm_;  // of the last update
  Window window_;
  Clock::time_point start_;
  Clock::time_point read_at_;
  double shown_loss_ = 0;
  double shown_speed_ = 0;
  Clock::time_point saved_at_ = Clock::now();
  double save_seconds_ = 0;
  bool has_warned_ = false;
  bool has_reported_ = false;
  std::string resumed_from_;  // "": a new run
  double resumed_loss_ = 0;   // what the interrupted run had not logged yet
  std::int64_t resumed_steps_ = 0;
};

}  // namespace

int run_training(const TrainingArguments& arguments, Task& task) { return Run(arguments, task).execute(); }

}  // namespace tessera::trainer
