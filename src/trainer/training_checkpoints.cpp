// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a training run, resuming from them, and signals that stop the run.
#include <cmath>
#include <exception>
#include <utility>

#include "flags/changed_flags.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/frontend/execution/profiler.h"
#include "training_loop.h"

namespace tessera::trainer {

void Trainer::Run::save_run() {
  const profiler::Trace scope("save");
  if (unnoted_steps_ > 0) note_reading(0, false);
  take_readings(0);
  check_norm();
  for (const auto& callback : callbacks_)
    if (!callback->name().empty())
      state_.stateful_callbacks.insert_or_assign(std::string(callback->name()), callback->state());
  ResumeState run = state_of_data();
  run.samples = loader_.state().samples;
  run.unlogged_loss = window_.loss;
  run.unlogged_steps = window_.losses;
  run.epochs_before = epochs_before_;
  run.evaluation_due = evaluation_due_;
  run.save_due = evaluation_due_ && save_due_;
  saved_update_ = state_.global_step;
  CheckpointContent content = checkpoint_of(arguments_, setup_, state_, run);
  content.documents.emplace("training_args", arguments_json());
  saver_.begin(state_.global_step, content, state_.best_model_checkpoint);
}

// With several ranks, the others may be in another collective, and would wait for this rank: then ~CheckpointWriter completes the
// save. An error that all ranks find together has completed it before.
void Trainer::Run::finish_save_after_error() {
  if (drops_save_) return saver_.drop();
  if (joined_world()->size() > 1) return;
  try {
    best_.finish();
  } catch (const std::exception& error) {
    log_warning("{}", error.what());
  }
}

ResumeState Trainer::Run::state_of_data() const {
  return {.data_seed = arguments_.data_seed.value_or(arguments_.seed),
          .samples_per_epoch = loader_.samples_per_epoch(),
          .data_hash = data_hash_,
          .accumulation_steps = arguments_.gradient_accumulation_steps,
          .schedule = schedule_.state()};
}

// Continues the run of a checkpoint, once.
void Trainer::Run::resume() {
  if (!resumed_from_.empty()) return;
  ResumeState run = state_of_data();
  resumed_from_ = resume_run(arguments_, setup_, state_, run);
  if (!resumed_from_.empty()) {
    if (is_master_ && arguments_.do_train) warn_of_changed_flags(arguments_, resumed_from_);
    if (is_master_ && state_.train_batch_size != rows_)
      log_warning(
          "the run had batches of {0} rows, now they have {1}; to keep the old batches, give --global_batch_size {0}",
          state_.train_batch_size, rows_);
    epochs_before_ = arguments_.ignore_data_skip ? state_.epoch : run.epochs_before;
    if (!arguments_.ignore_data_skip) loader_.seek(run.samples);
    evaluation_due_ = run.evaluation_due && arguments_.eval_strategy != "no";
    save_due_ = run.save_due && arguments_.save_strategy != "no";
    schedule_.set_state(run.schedule);
    best_.find_beside(resumed_from_);
    window_.loss = run.unlogged_loss;
    window_.losses = window_.steps = window_.earlier_steps = run.unlogged_steps;
    for (const auto& callback : callbacks_)
      if (const auto kept = state_.stateful_callbacks.find(std::string(callback->name()));
          kept != state_.stateful_callbacks.end())
        callback->set_state(kept->second);
  }
  state_.max_steps = steps_;
  state_.num_train_epochs = arguments_.total_epochs(loader_.len());
  state_.logging_steps = intervals_.log;
  state_.train_batch_size = rows_;
}

// Called between updates, batches and tokens by every rank, so that all ranks stop at the same point.
bool Trainer::Run::is_stopped() {
  if (stop_signal_ == 0) stop_signal_ = stop_watcher_.signal(*joined_world());
  return stop_signal_ != 0;
}

std::string Trainer::Run::stop_message() const {
  return fmt::format("stopped by {} after step {} of {}{}", signal_name(stop_signal_), state_.global_step, steps_,
                     saver_.saved_step() == state_.global_step && !arguments_.save_only_model
                         ? "; continue with --resume_from_checkpoint true"
                     : writes_state() ? "; trainer_state.json is written"
                                      : "");
}

}  // namespace tessera::trainer
