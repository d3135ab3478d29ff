// SPDX-License-Identifier: Apache-2.0
// --auto_find_batch_size: the largest batch whose plan fits into the memory of a rank.
#pragma once

#include <cstdint>

#include "plan/step_plan.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// The plan of a step with a batch.
struct PlannedBatch {
  std::int64_t rows = 0;        // for each data shard
  std::int64_t held_bytes = 0;  // the memory of a rank
};

struct BatchChoice {
  PlannedBatch chosen;
  PlannedBatch larger{};  // the batch before the last halving, which does not fit; 0 rows: the first one fits
};

/// Plans the steps of `arguments` on `devices` devices with batches of several sizes. With --max_memory_per_rank, the
/// steps recompute values to keep this limit, as the run will do.
class BatchPlanner {
 public:
  /// `how` is that of planned_execution().
  BatchPlanner(TrainingArguments arguments, std::int64_t devices, ExecutionOptions how);

  /// Plans a step with `rows` rows for each data shard.
  [[nodiscard]] PlannedBatch planned(std::int64_t rows) const;
  /// Halves the rows of the choice if a rank needs more than `bytes`. Returns false if it needs at most that, or if the choice has one
  /// row.
  bool halve(BatchChoice& choice, std::int64_t bytes) const;
  /// Halves the rows of `first` until a rank needs at most `bytes`. If one row needs more, the choice has one row.
  [[nodiscard]] BatchChoice halved(const PlannedBatch& first, std::int64_t bytes) const;
  /// Throws the error that a step with `rows` rows needs more than `bytes`, with its memory by use. `limit` describes
  /// the limit.
  [[noreturn]] void refuse(std::int64_t rows, std::int64_t bytes, const std::string& limit) const;

 private:
  [[nodiscard]] TrainingArguments with_rows(std::int64_t rows) const;
  [[nodiscard]] ExecutableMemory memory(std::int64_t rows) const;

  TrainingArguments arguments_;
  std::int64_t devices_;
  ExecutionOptions how_;
};

/// Returns the arguments with the batch that --auto_find_batch_size chooses, and a note that gives the reason. A run that
/// continues a checkpoint keeps the batches of the checkpoint. Rank 0 plans. Collective, except in a dry run, in which
/// one rank calls it. Error: one row for each data shard does not fit.
TrainingArguments with_largest_batch(TrainingArguments arguments);

}  // namespace tessera::trainer
