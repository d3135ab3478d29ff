// SPDX-License-Identifier: Apache-2.0
// The content of the checkpoints of a run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/trainer/task.h"
#include "tessera/trainer/trainer_state.h"

namespace tessera::trainer {

/// What a run needs besides weights, optimizer state, random numbers and the log.
struct ResumeState {
  std::int64_t samples = 0;  // that the loader has given
  double unlogged_loss = 0;  // the sum since the last entry of the log
  std::int64_t unlogged_steps = 0;
  std::int64_t data_seed = 0;  // of the order of samples
  std::int64_t samples_per_epoch = 0;
  std::int64_t data_hash = 0;                // content_of_inputs(); 0: not known
  std::int64_t accumulation_steps = 1;       // micro-batches in an update
  double epochs_before = 0;                  // the epochs that `samples` does not count, because of --ignore_data_skip
  bool evaluation_due = false;               // a signal prevented the evaluation after the last update
  bool save_due = false;                     // the last update would also have been saved without the signal
  std::map<std::string, double> schedule{};  // Schedule::state()
};

/// The groups model and optimizer, and the documents trainer_state and run_state.
CheckpointContent checkpoint_of(const TrainingArguments& arguments, const TrainingSetup& setup,
                                const TrainerState& state, const ResumeState& run);
/// `run` contains the seed, the samples and the micro-batches of this run; a warning says if the checkpoint has others.
/// With --resume_from_checkpoint, gives model, optimizer, random numbers, `state` and `run` the values of the checkpoint,
/// and returns its folder; else "". If the run trains, renames later checkpoints in its output folder. Collective.
std::string resume_run(const TrainingArguments& arguments, TrainingSetup& setup, TrainerState& state, ResumeState& run);

/// The rows of a micro-batch over all data shards in the run that --resume_from_checkpoint continues. 0 without the flag,
/// or if its checkpoint cannot be read; resume_run() then reports the error. Reads only documents. Call it on one rank.
std::int64_t rows_of_resumed_run(const TrainingArguments& arguments);

}  // namespace tessera::trainer
