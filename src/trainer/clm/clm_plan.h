// SPDX-License-Identifier: Apache-2.0
// The programs of a training step of a causal language model, planned and not executed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/lowering/execution_plan.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {

/// A program of a training step. With gradient accumulation there is one for each micro-batch; the last one contains the
/// update.
struct PlannedProgram {
  Partitioned partitioned;
  std::int64_t runs = 1;  // in a step
};

/// Plans the programs of the first micro-batch, of one in the middle, and of the last. No other programs occur.
std::vector<PlannedProgram> plan_training_step(const TrainingArguments& arguments, ClmModel& setup);

/// The ranks of this job if the plan is for this number of ranks, or else ranks on the nodes that TESSERA_NODE specifies.
ExecutionOptions planned_execution(int devices);

/// The paths of the repeated blocks of a model, each with a dot at its end.
std::vector<std::string> block_paths(nn::PretrainedModel& model);

}  // namespace tessera::trainer
