// SPDX-License-Identifier: Apache-2.0
// What the training loop reads, prints and logs.
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "run/mmf_log.h"
#include "run/run_figures.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/profiler.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/execution/step.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/runtime/metrics/metrics.h"
#include "training_loop.h"

namespace tessera::trainer {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

// A run with a loss scale ends after so many updates in succession whose loss is not finite.
constexpr std::int64_t kMostLostLosses = 10;
// It also ends if gradients are not finite with a smaller scale than this one, the smallest normal number of float16.
constexpr double kLeastLossScale = 6.103515625e-05;

double seconds_between(TimePoint start, TimePoint end) { return std::chrono::duration<double>(end - start).count(); }

}  // namespace

// ---- reading --------------------------------------------------------------------------------------------------------------

// The sum of losses up to the last update, to be read when later updates have been started.
void Trainer::Run::note_reading(double rate, bool logs) {
  readings_.push_back({.losses = started_.losses,
                       .norm = started_.norm,
                       .steps = std::exchange(unnoted_steps_, 0),
                       .batches = std::exchange(unnoted_batches_, 0),
                       .last_step = state_.global_step,
                       .epoch = state_.epoch,
                       .rate = rate,
                       .tokens = state_.num_input_tokens_seen,
                       .time = Clock::now(),
                       .logs = logs});
  last_norm_ = started_.norm;
  started_ = {};
  runner_.restart_loss_sum();
}

// Reads the sums of losses that at least `except` later updates follow.
void Trainer::Run::take_readings(std::int64_t except) {
  while (!readings_.empty() && state_.global_step - readings_.front().last_step >= except) {
    take(readings_.front());
    readings_.pop_front();
  }
}

void Trainer::Run::take(const Reading& reading) {
  const double sum = reading.losses.sum.item();
  const std::int64_t losses = setup_.scaler ? static_cast<std::int64_t>(reading.losses.count.item()) : reading.steps;
  if (setup_.scaler)
    check_scaled_losses(reading, losses);
  else
    check_loss(reading, sum);
  if (begins_output_) begin_output();
  if (losses > 0) shown_loss_ = sum / static_cast<double>(losses);
  shown_speed_ = units_per_batch_ * static_cast<double>(reading.batches) / seconds_between(read_at_, reading.time);
  window_.loss += sum;
  window_.losses += losses;
  window_.steps += reading.steps;
  window_.batches += reading.batches;
  loss_of_run_ += sum;
  losses_of_run_ += losses;
  read_at_ = reading.time;
  if (reading.logs) log(reading);
}

void Trainer::Run::check_loss(const Reading& reading, double sum) {
  if (!std::isfinite(sum)) {
    // Parameters whose next loss is not finite would only replace better checkpoints.
    drops_save_ = reading.last_step - reading.steps == saved_update_;
    if (!drops_save_) best_.finish();  // all ranks are here, so the save in flight can be completed
  }
  require(std::isfinite(sum), "the loss is {} at {}", sum, [&] {
    return reading.steps == 1
               ? fmt::format("step {}", reading.last_step)
               : fmt::format("one of the steps {} to {}", reading.last_step - reading.steps + 1, reading.last_step);
  });
}

// With a loss scale, an update whose loss or gradients are not finite has no effect, and the run continues with a
// smaller scale. It ends if that does not help.
void Trainer::Run::check_scaled_losses(const Reading& reading, std::int64_t losses) {
  lost_losses_ = losses > 0 ? 0 : lost_losses_ + reading.steps;
  const bool has_lost_all = lost_losses_ >= kMostLostLosses;
  if (!has_lost_all && std::isfinite(reading.norm.item())) return;
  const double scale = setup_.scaler->get_scale();
  if (!has_lost_all && scale >= kLeastLossScale) return;
  best_.finish();  // the parameters of the save in flight are those before these updates
  require(
      !has_lost_all,
      "the last {} losses up to step {} are not finite, and a smaller loss scale does not change losses; --bf16 has "
      "the range of float32",
      lost_losses_, reading.last_step);
  fail(
      "the gradients are not finite after step {}, although the loss scale has fallen to {:.2g}; --bf16 has the range "
      "of float32",
      state_.global_step, scale);
}

// The loss precedes the update. Whether the new parameters are finite shows in the norm of the gradients.
void Trainer::Run::check_norm() {
  if (last_norm_.is_null() || setup_.scaler) return;  // with a scaler, such an update has no effect
  const double norm = std::fabs(last_norm_.item());   // without the sign of a NaN
  if (!std::isfinite(norm)) best_.finish();
  require(std::isfinite(norm), "the norm of the gradients is {} at step {}; this update is not saved", norm,
          state_.global_step);
}

std::optional<double> Trainer::Run::utilization(double units_per_second) const {
  if (!flops_per_step_) return std::nullopt;
  return *flops_per_step_ / units_per_step_ * units_per_second / peak_.flops_per_second;
}

// ---- output ---------------------------------------------------------------------------------------------------------------

// Once updates have been computed, output that cannot be written does not end the run, which would lose them. The exit
// code reports it (status_after_output).
void Trainer::Run::print(const std::string& text) {
  if (!is_master_ || has_lost_output_) return;
  try {
    write_standard_output(text + "\n");
  } catch (const Error& error) {
    if (steps_of_run_ == 0) throw;
    has_lost_output_ = true;
    log_warning("{}; the run continues", error.what());
  }
}

std::string Trainer::Run::step_text() const {
  return fmt::format("step {:>{}}  ", state_.global_step, std::to_string(steps_).size());
}

std::string Trainer::Run::resumed_text() const {
  const std::int64_t step = state_.global_step;
  if (step > steps_)
    return fmt::format("resumed    {}: step {}, but the run has only {} updates: it is complete already\n",
                       resumed_from_, step, steps_);
  return fmt::format("resumed    {}: step {} of {}{}\n", resumed_from_, step, steps_,
                     step == steps_ && arguments_.do_train ? ": the run is complete already" : "");
}

std::string Trainer::Run::saved_text() const {
  if (!saves() || !arguments_.do_train) return "";
  std::vector<std::string> parts;
  if (has_saved_model_) parts.emplace_back("the model");
  std::vector<std::string> names;
  for (const auto& [step, path] : checkpoints_in(arguments_.output_dir)) {
    const std::filesystem::path folder = path;
    if (std::filesystem::exists(folder / "manifest.json")) names.push_back(folder.filename().string());
  }
  constexpr std::size_t kMostNamed = 4;
  if (names.size() > kMostNamed)
    parts.push_back(fmt::format("{} checkpoints from {} to {}", names.size(), names.front(), names.back()));
  else
    parts.insert(parts.end(), names.begin(), names.end());
  return parts.empty() ? "" : fmt::format("saved      {}: {}", arguments_.output_dir, fmt::join(parts, ", "));
}

// The memory and the collectives of the first program of a training.
void Trainer::Run::report_program() {
  if (has_reported_) return;  // compiled_programs() waits for the step that runs
  const auto& programs = compiled_programs();
  if (programs.empty() || programs.back().number < first_program_) return;
  has_reported_ = true;
  print(memory_report(setup_, most_memory_of_steps(first_program_), process_) +
        collective_report(programs.back().notes));
}

// The operations of a step, after the last one.
void Trainer::Run::report_work() {
  if (!flops_per_step_ || steps_of_run_ == 0) return;
  print(work_lines({.nominal = *flops_per_step_,
                    .parameters = setup_.network->parameter_count(),
                    .units = units_per_step_,
                    .unit = task_.unit(),
                    .attention = task_.flops_of_attention(units_per_step_),
                    .executed = executed_flops(first_program_)}));
}

// Which updates had no effect, after the last one.
void Trainer::Run::report_scale() {
  if (!setup_.scaler || steps_of_run_ == 0) return;
  print(fmt::format("loss scale {:g}; {} of {} updates had gradients that were not finite, and no effect",
                    setup_.scaler->get_scale(), setup_.scaler->skipped_steps(), state_.global_step));
}

void Trainer::Run::show_progress() {
  if (!is_master_ || arguments_.disable_tqdm) return;
  bar_.update({state_.global_step, steps_, seconds_between(start_, Clock::now()), shown_loss_, shown_speed_,
               utilization(shown_speed_), task_.unit()});
}

// The line of an entry about updates, in the form of --logging_format. `seconds` have passed since the last one.
std::string Trainer::Run::line_of(const LogEntry& entry, double seconds) const {
  if (arguments_.logging_format != "mmf")
    return log_text(entry, {.unit = std::string(task_.unit()),
                            .last_step = steps_,
                            .exposed_part = job_info().ranks == 1 ? std::nullopt : std::optional(exposed_part_)});
  return mmf_log_text(entry, {.experiment = arguments_.run_name.empty() ? MmfStyle{}.experiment : arguments_.run_name,
                              .last_step = steps_,
                              .iterations = std::llround(entry.epoch * static_cast<double>(loader_.len())),
                              .mean_loss = loss_of_run_ / static_cast<double>(losses_of_run_),
                              .seconds = seconds});
}

void Trainer::Run::log(const Reading& reading) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, window_.steps - window_.earlier_steps));
  const double seconds = seconds_between(window_.start, reading.time);
  const double speed = units_per_batch_ * static_cast<double>(window_.batches) / seconds;
  // The programs of the last updates may have ended before the log of an earlier update; then its figure still holds.
  const ExposedCommunication now = exposed_communication();
  const auto programs = static_cast<double>(arguments_.gradient_accumulation_steps);
  if (const auto each = now.seconds_per_program(exposed_before_)) exposed_of_update_ = *each * programs;
  if (const auto part = now.part_of_time(exposed_before_)) exposed_part_ = *part;
  exposed_before_ = now;
  LogEntry entry{.step = reading.last_step,
                 .epoch = reading.epoch,
                 .loss = window_.loss / static_cast<double>(window_.losses),  // NaN if there is none
                 .learning_rate = reading.rate,
                 .grad_norm = reading.norm.item(),
                 .tokens_per_second = speed,
                 .mfu = utilization(speed),
                 .exposed_communication_seconds = exposed_of_update_};
  entry.ups = steps / seconds;
  entry.time_since_start = seconds_between(start_, reading.time);
  entry.eta = static_cast<double>(steps_ - reading.last_step) / *entry.ups;
  if (arguments_.include_num_input_tokens_seen) entry.num_input_tokens_seen = static_cast<double>(reading.tokens);
  if (is_master_) bar_.print(line_of(entry, seconds));
  add_to_log(entry);
  call(&TrainerCallback::on_log, &entry);
  if (is_master_ && arguments_.prints_metrics()) bar_.print(metrics_report());
  window_ = {.start = reading.time};
}

void Trainer::Run::add_to_log(const LogEntry& entry) {
  state_.log_history.push_back(entry);
  if (!is_master_) return;
  files_.write(entry);
  if (writes_state()) state_writer_.begin(state_);
}

std::optional<Metrics> Trainer::Run::evaluate(const std::string& where) {
  require(task_.held_out() > 0, "evaluate: there are no held-out samples");
  const profiler::Trace scope("evaluate");
  const bool measures = host_.stop();
  const TimePoint start = Clock::now();
  std::optional<Metrics> result;
  run_evaluation([&] {
    result = trainer::evaluate(task_, arguments_.eval_batch_rows(setup_.data_shards),
                               arguments_.max_eval_samples.value_or(task_.held_out()), showing("held out", "samples"));
  });
  bar_.erase();
  if (!result) return result;
  print(fmt::format("{}held out: {}", where, result->text));
  LogEntry entry{.step = state_.global_step, .epoch = state_.epoch, .eval_loss = result->loss};
  entry.eval_accuracy = result->find("accuracy");
  for (const auto& metric : result->others)
    if (metric.first != "accuracy") entry.eval_metrics.push_back(metric);
  add_to_log(entry);
  if (where.empty()) save_results(entry, seconds_between(start, Clock::now()));
  call(&TrainerCallback::on_evaluate, &entry, &*result);
  window_.start += Clock::now() - start;  // the speed in the log is that of the updates
  read_at_ += Clock::now() - start;
  if (measures) host_.start();
  return result;
}

// ---- files ----------------------------------------------------------------------------------------------------------------

void Trainer::Run::save_tokenizer(const std::string& folder) const {
  try {
    task_.save_tokenizer(folder);
  } catch (const std::exception& error) {  // the weights matter more
    log_warning("the tokenizer is not saved in {}: {}", folder, error.what());
  }
}

JsonObject Trainer::Run::arguments_json() const {
  TrainingArguments arguments = arguments_;
  const JobInfo job = job_info();
  arguments.virtual_ranks = job.is_virtual ? job.ranks : 0;  // launch() has taken the flag
  return arguments.json();
}

void Trainer::Run::save_arguments() const {
  try {
    std::filesystem::create_directories(arguments_.output_dir);
    arguments_json().save(arguments_.output_dir + "/training_args.json");
  } catch (const std::exception& error) {
    log_warning("the arguments are not saved in {}: {}", arguments_.output_dir, error.what());
  }
}

void Trainer::Run::save_results(const TrainOutput& output) const {
  if (steps_of_run_ == 0) return;  // the run was complete already
  const double seconds = seconds_between(start_, Clock::now());
  const auto updates = static_cast<double>(steps_of_run_);
  const auto rows = static_cast<double>(rows_ * batches_of_run_);
  save_results("train", [&](JsonObject& to) {
    to.set("epoch", state_.epoch);
    to.set("total_flos", state_.total_flos);
    to.set("train_loss", output.training_loss);
    to.set("train_runtime", seconds);
    to.set("train_samples", loader_.samples_per_epoch());
    to.set("train_samples_per_second", rows / seconds);
    to.set("train_steps_per_second", updates / seconds);
  });
}

void Trainer::Run::save_results(const LogEntry& evaluation, double seconds) const {
  const std::int64_t samples = std::min(task_.held_out(), arguments_.max_eval_samples.value_or(task_.held_out()));
  const std::int64_t batches = ceil_div(samples, arguments_.eval_batch_rows(setup_.data_shards));
  save_results("eval", [&](JsonObject& to) {
    const auto add = [&](const std::string& name, double value) {
      if (std::isfinite(value)) to.set(name, value);
    };
    if (state_.global_step > 0) to.set("epoch", evaluation.epoch);
    add("eval_loss", *evaluation.eval_loss);
    if (evaluation.eval_accuracy) add("eval_accuracy", *evaluation.eval_accuracy);
    for (const auto& [name, value] : evaluation.eval_metrics) {
      add("eval_" + name, value);
      if (name == "perplexity") add(name, value);  // the key of Hugging Face's run_clm
    }
    to.set("eval_runtime", seconds);
    to.set("eval_samples", samples);
    to.set("eval_samples_per_second", static_cast<double>(samples) / seconds);
    to.set("eval_steps_per_second", static_cast<double>(batches) / seconds);
  });
}

void Trainer::Run::save_results(const std::string& split, const std::function<void(JsonObject&)>& set) const {
  if (!is_master_ || arguments_.output_dir.empty() || stop_signal_ != 0) return;
  try {
    write_results(arguments_.output_dir, split, set);
  } catch (const std::exception& error) {
    log_warning("the results are not saved in {}: {}", arguments_.output_dir, error.what());
  }
}

// Shows the progress if the progress bar is on, and ends the work after a signal.
OnProgress Trainer::Run::showing(std::string what, std::string unit) {
  return [this, what = std::move(what), unit = std::move(unit)](std::int64_t done, std::int64_t total) {
    if (is_master_ && !arguments_.disable_tqdm) bar_.status(fmt::format("{}: {} of {} {}", what, done, total, unit));
    return !is_stopped();
  };
}

}  // namespace tessera::trainer
