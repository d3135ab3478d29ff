// SPDX-License-Identifier: Apache-2.0
// --logging_steps, --eval_steps and --save_steps as numbers of updates.
#pragma once

#include <cstdint>

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// The updates between two entries of the log, two evaluations and two checkpoints.
struct Intervals {
  std::int64_t log = 1;
  std::int64_t evaluate = 1;
  std::int64_t save = 1;
  /// A flag below 1 is a fraction of `total_steps`, and is rounded up. Error: --load_best_model_at_end, and a checkpoint
  /// without an evaluation.
  static Intervals of(const TrainingArguments& arguments, std::int64_t total_steps);
};

}  // namespace tessera::trainer
