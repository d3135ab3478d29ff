// SPDX-License-Identifier: Apache-2.0
// Refuses evaluations that do not fit into memory before the first update.
#pragma once

#include <cstdint>

#include "tessera/runtime/executable/executable.h"
#include "tessera/trainer/task.h"

namespace tessera::trainer {

/// The memory of an evaluation on a rank.
struct EvaluationMemory {
  ExecutableMemory program;
  std::int64_t batch = 0;  // bytes of the rows of a rank; a part of program.arguments
};

/// Plans the evaluation of a batch of the task. Records it in the trace, and then discards the trace. If `plans` is
/// false, only records it, as the ranks do that do not plan.
EvaluationMemory evaluation_memory(const TrainingArguments& arguments, Task& task, bool plans = true);

/// True if the run evaluates, and the batch of an evaluation is larger than that of the training.
bool has_larger_evaluation(const TrainingArguments& arguments, std::int64_t data_shards);

/// While it exists, the checks before the first runs of programs also check that an evaluation fits, if it may need more
/// memory than the training. The checks are exact when the parameters and the optimizer state exist, which is before
/// the first update.
class ExpectedEvaluation {
 public:
  /// Rank 0 plans an evaluation. Collective.
  ExpectedEvaluation(const TrainingArguments& arguments, Task& task);
  ~ExpectedEvaluation();
  ExpectedEvaluation(const ExpectedEvaluation&) = delete;
  ExpectedEvaluation& operator=(const ExpectedEvaluation&) = delete;

 private:
  bool is_expected_ = false;
};

}  // namespace tessera::trainer
