// SPDX-License-Identifier: Apache-2.0
#include "training_loop.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <utility>

#include "flags/changed_flags.h"
#include "flags/input_files.h"
#include "kept_random_state.h"
#include "run/output_folder.h"
#include "run/run_figures.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/frontend/execution/profiler.h"
#include "tessera/frontend/execution/runtime.h"

namespace tessera::trainer {
namespace {

// Reading a value makes the host wait and costs a transfer.
constexpr std::int64_t kStepsBetweenReadings = 4;
// A value is read when so many later updates have been started.
constexpr std::int64_t kUpdatesInAdvance = 2;

}  // namespace

Trainer::Run::Run(const TrainingArguments& arguments, Task& task)
    : arguments_(arguments),
      is_master_(RankContext::current().rank() == 0),
      task_(task),
      setup_(task.setup()),
      peak_(measure_compute_peak(*joined_world(), peak_dtype(arguments, setup_),
                                 static_cast<int>(options().integer("TESSERA_NUM_THREADS")))),
      rows_(arguments.micro_batch_rows(setup_.data_shards)),
      loader_(task.loader()),
      steps_(arguments.total_steps(loader_.len())),
      intervals_(Intervals::of(arguments, steps_)),
      units_per_batch_(static_cast<double>(rows_ * task.units_per_row())),
      units_per_step_(units_per_batch_ * static_cast<double>(arguments.gradient_accumulation_steps)),
      flops_per_step_(task.flops(units_per_step_)),
      schedule_(optim::schedule_from_name(arguments.lr_scheduler_type), arguments.learning_rate,
                arguments.warmup_count(steps_), steps_,
                optim::ScheduleArguments::parse(optim::schedule_from_name(arguments.lr_scheduler_type),
                                                arguments.lr_scheduler_kwargs)),
      runner_(arguments, task),
      bar_(stderr, arguments.disable_tqdm || !is_master_ ? 0 : 50),
      saver_(arguments, is_master_),
      best_(arguments, state_, saver_),
      files_(arguments),
      state_writer_(arguments.output_dir) {
  check_held_out_samples();
  if (!arguments.output_dir.empty() || !arguments.resume_from_checkpoint.empty())
    data_hash_ = content_of_inputs(arguments);
  if (arguments.early_stopping_patience)
    add_callback(std::make_shared<EarlyStoppingCallback>(*arguments.early_stopping_patience,
                                                         arguments.early_stopping_threshold));
  state_.max_steps = steps_;
}

void Trainer::Run::check_held_out_samples() const {
  require(task_.held_out() > 0 || (arguments_.eval_strategy == "no" && !arguments_.eval_on_start),
          "--eval_strategy {} needs held-out samples, and there are none; give a longer --validation_file or a larger "
          "--validation_split_percentage",
          arguments_.eval_strategy);
}

// ---- what the programs do -------------------------------------------------------------------------------------------------

int Trainer::Run::execute() {
  watch_stop_signals();
  if (arguments_.has_overrides) print("configuration\n" + arguments_.configuration());
  print(banner(arguments_, setup_, task_.model_text(), task_.rows_text()));
  resume();
  if (!resumed_from_.empty()) print(resumed_text());
  print(peak_line(peak_));
  print(sharding_report(setup_));
  if (is_master_ && !arguments_.do_train && arguments_.model_name_or_path.empty() && resumed_from_.empty())
    log_warning(
        "the model has random weights: give --model_name_or_path or --resume_from_checkpoint to evaluate others");
  const CommunicationSeconds before = communication_seconds();
  if (arguments_.do_train) save_results(train());
  bar_.finish();
  report_work();
  report_scale();
  if (const std::string line = overlap_line(before); !line.empty()) print(line);
  if (const std::string lines = host_.line(); !lines.empty()) print(lines);
  if (arguments_.load_best_model_at_end && !is_stopped())
    if (const std::string line = best_.load(setup_); !line.empty()) {
      has_best_model_ = true;
      print(line);
    }
  if (arguments_.do_train && !arguments_.output_dir.empty() && !is_stopped()) save_model("");
  bar_.finish();
  if (arguments_.do_eval && task_.held_out() > 0 && !is_stopped()) evaluate("");
  if (!is_stopped()) {
    const KeptRandomState kept;
    const std::string text = task_.finish(showing(std::string(task_.final_work()), std::string(task_.unit())));
    bar_.erase();
    if (!text.empty()) print(text);
  }
  bar_.finish();
  state_writer_.finish();
  if (writes_state()) state_.save(arguments_.output_dir);
  if (const std::string text = saved_text(); !text.empty()) print(text);
  if (const std::string failures = saver_.failures(); is_master_ && !failures.empty()) log_warning("{}", failures);
  if (stop_signal_ == 0) return 0;
  if (is_master_) log_line(LogLevel::kError, stop_message());
  constexpr int kKilledBySignal = 128;
  return kKilledBySignal + stop_signal_;
}

void Trainer::Run::save_model(const std::string& folder) {
  require(!folder.empty() || !arguments_.output_dir.empty(), "save_model: give a folder, or set output_dir");
  const profiler::Trace scope("save the model");
  if (!has_best_model_) check_norm();
  const std::string& place = folder.empty() ? arguments_.output_dir : folder;
  if (place == arguments_.output_dir) saver_.set_replaced_aside();
  save_pretrained(*setup_.network, place);
  if (is_master_) save_tokenizer(place);
  if (place != arguments_.output_dir) return;
  has_saved_model_ = true;
  saver_.delete_replaced();
}

// ---- the loop -------------------------------------------------------------------------------------------------------------

TrainOutput Trainer::Run::train() {
  resume();
  try {
    return run_updates();
  } catch (...) {
    expected_evaluation_.reset();
    finish_save_after_error();
    throw;
  }
}

TrainOutput Trainer::Run::run_updates() {
  control_ = {};
  drops_save_ = false;
  loss_of_run_ = 0;
  losses_of_run_ = lost_losses_ = steps_of_run_ = batches_of_run_ = 0;
  first_program_ = lazy_counters().compilations;
  has_reported_ = false;
  if (is_master_) process_ = measure_process("before the first update");
  host_ = {};
  start_ = read_at_ = window_.start = Clock::now();
  exposed_before_ = exposed_communication();
  call(&TrainerCallback::on_train_begin);
  if (arguments_.eval_on_start && resumed_from_.empty() && task_.held_out() > 0) evaluate(step_text());
  evaluate_missed();
  call(&TrainerCallback::on_epoch_begin);
  if (state_.global_step < steps_) expected_evaluation_.emplace(arguments_, task_);
  for (std::int64_t n = state_.global_step + 1; n <= steps_ && stop_signal_ == 0 && !control_.should_training_stop; ++n)
    update(n);
  if (unnoted_steps_ > 0) note_reading(0, false);  // an evaluation has ended the training
  take_readings(0);
  host_.stop();
  best_.finish();
  call(&TrainerCallback::on_train_end);
  if (!arguments_.output_dir.empty() && is_master_) state_writer_.finish();
  return {.global_step = state_.global_step,
          .training_loss = losses_of_run_ == 0 ? 0 : loss_of_run_ / static_cast<double>(losses_of_run_),
          .stop_signal = stop_signal_,
          .host_share = host_.share()};
}

// The micro-batches of an update. The last update of an epoch has the remaining ones.
std::vector<data::Batch> Trainer::Run::next_batches() {
  std::vector<data::Batch> out;
  do {
    out.push_back(loader_.next_batch());
  } while (isize(out) < arguments_.gradient_accumulation_steps && !out.back().ends_epoch);
  return out;
}

void Trainer::Run::update(std::int64_t n) {
  control_.should_log = control_.should_evaluate = control_.should_save = false;
  if (steps_of_run_ > 0) host_.start();  // without the first update, which compiles
  call(&TrainerCallback::on_step_begin);
  const double rate = setup_.optimizer->computed_rate(n).value_or(schedule_.rate(n - 1));
  const double epoch_before = state_.epoch;
  std::int64_t count = 0;
  {
    const profiler::StepTrace scope("train", n);
    const std::vector<data::Batch> batches = next_batches();
    count = isize(batches);
    schedule_.apply(*setup_.optimizer);
    started_ = runner_.run(batches);
  }
  ++unnoted_steps_;
  ++steps_of_run_;
  unnoted_batches_ += count;
  batches_of_run_ += count;
  state_.global_step = n;
  state_.epoch = epochs_before_ + loader_.epochs();
  const auto units = units_per_batch_ * static_cast<double>(count);
  state_.total_flos += flops_per_step_.value_or(0) * (units / units_per_step_);
  if (task_.unit() == "tokens") state_.num_input_tokens_seen += static_cast<std::int64_t>(units);
  follow_update(rate, epoch_before);
}

// What happens after an update: callbacks, the log, evaluation, checkpoint.
void Trainer::Run::follow_update(double rate, double epoch_before) {
  report_program();
  expected_evaluation_.reset();  // the first update is executed
  decide(epoch_before);
  call(&TrainerCallback::on_step_end);
  const bool ends = is_stopped() || control_.should_training_stop || state_.global_step == steps_;
  const std::int64_t n = state_.global_step;
  const bool logs = control_.should_log || (ends && arguments_.logging_strategy != "no");
  if (logs || ends || n == 1 || unnoted_steps_ == kStepsBetweenReadings) note_reading(rate, logs);
  take_readings(ends ? 0 : kUpdatesInAdvance);
  show_progress();
  saver_.poll();
  evaluate_and_save();
  if (std::floor(state_.epoch) > std::floor(epoch_before)) {
    call(&TrainerCallback::on_epoch_end);
    if (!ends) call(&TrainerCallback::on_epoch_begin);
  }
}

// The run can be trained, so it may replace another one.
void Trainer::Run::begin_output() {
  begins_output_ = false;
  if (!saves()) return;
  save_arguments();
  if (arguments_.save_strategy != "no") save_tokenizer(arguments_.output_dir);
  if (resumed_from_.empty())
    saver_.set_replaced(replaced_checkpoints(arguments_));
  else
    saver_.continue_from(resumed_from_, state_.best_model_checkpoint);
}

// What the arguments ask for after an update. Callbacks may change it.
void Trainer::Run::decide(double epoch_before) {
  const std::int64_t n = state_.global_step;
  control_.should_log =
      is_due(arguments_.logging_strategy, intervals_.log, epoch_before) || (n == 1 && arguments_.logging_first_step);
  const double past = arguments_.eval_strategy == "epoch" ? state_.epoch : static_cast<double>(n);
  control_.should_evaluate =
      is_due(arguments_.eval_strategy, intervals_.evaluate, epoch_before) && past >= arguments_.eval_delay;
  control_.should_save = is_due(arguments_.save_strategy, intervals_.save, epoch_before);
}

// Whether something is due that happens at the end, and every `steps` updates or after every epoch.
bool Trainer::Run::is_due(const std::string& strategy, std::int64_t steps, double epoch_before) const {
  if (strategy == "no" || strategy == "best") return false;
  if (state_.global_step == steps_) return true;
  if (strategy == "epoch") return std::floor(state_.epoch) > std::floor(epoch_before);
  return state_.global_step % steps == 0;
}

void Trainer::Run::evaluate_and_save() {
  evaluation_due_ = control_.should_evaluate && task_.held_out() > 0;
  save_due_ = !arguments_.output_dir.empty() && (control_.should_save || saves_at_early_end());
  const bool evaluates = evaluation_due_ && stop_signal_ == 0;
  const auto saves_at_stop = [&] {
    return stop_signal_ != 0 && !arguments_.output_dir.empty() && arguments_.save_strategy != "no";
  };
  bool saves = save_due_;
  if (!evaluates && !saves && !saves_at_stop()) return;
  const bool measures = host_.stop();
  if (evaluates) saves = evaluate_update(saves);
  if (saves || saves_at_stop()) {
    best_.finish_earlier();
    save_run();
    stop_watcher_.ask_next();  // a save may take longer than many updates
    call(&TrainerCallback::on_save);
  }
  if (measures) host_.start();
}

// Returns whether the update is then saved.
bool Trainer::Run::evaluate_update(bool saves) {
  take_readings(0);
  const auto result = evaluate(step_text());
  if (!result) return saves;
  evaluation_due_ = false;
  if (schedule_.needs_metric()) schedule_.note_metric(chosen_metric(arguments_, *result));
  saves = saves || saves_at_early_end();
  if (arguments_.save_strategy == "best") {
    best_.finish();  // a checkpoint that could not be saved is not the best one
    saves = best_.is_better(*result);
  }
  if (saves && (arguments_.compares_checkpoints() || arguments_.save_strategy == "best")) best_.note(*result);
  return saves;
}

// The evaluation that a signal prevented after the last update of the run that this one continues.
void Trainer::Run::evaluate_missed() {
  if (!evaluation_due_) return;
  if (begins_output_) begin_output();
  control_.should_evaluate = true;
  control_.should_save = save_due_;
  evaluate_and_save();
}

// Whether the last update before the end is saved although it is not the last one of the run.
bool Trainer::Run::saves_at_early_end() const {
  const std::string& strategy = arguments_.save_strategy;
  return control_.should_training_stop && !arguments_.output_dir.empty() && strategy != "no" && strategy != "best";
}

void Trainer::Run::call(Event event, const LogEntry* log, const Metrics* metrics) {
  const TrainerEvent given{arguments_, state_, control_, setup_, log, metrics};
  for (const auto& callback : callbacks_) ((*callback).*event)(given);
}

}  // namespace tessera::trainer
