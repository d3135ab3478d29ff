// SPDX-License-Identifier: Apache-2.0
// --max_memory_per_rank: which values of the forward pass are computed again in the backward pass, so that a step fits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/step_plan.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// A step that was planned with a budget.
struct BudgetPoint {
  bool checkpoints_blocks = false;  // every block is computed again, as with --gradient_checkpointing
  std::int64_t budget = 0;          // TESSERA_MEMORY_BUDGET; 0: none
  std::int64_t held_bytes = 0;      // the memory of a rank
  std::int64_t workspace = 0;       // of the kernels, a part of held_bytes that the budget excludes
  std::int64_t file_bytes = 0;      // of values that are written to a file in the meantime, with TESSERA_OFFLOAD_DIR
  double seconds = 0;               // modelled on `cpu-node`
};

/// A program of a step as it is executed without a budget, and how often a step runs it.
struct LoweredProgram {
  Program program;
  std::int64_t runs = 1;
};

/// Plans the steps of `arguments` on `devices` devices with several budgets.
class BudgetPlanner {
 public:
  BudgetPlanner(TrainingArguments arguments, std::int64_t devices);

  /// The step without a budget first, then with less and less memory, down to the least that is
  /// found by computing single values again.
  std::vector<BudgetPoint> curve();
  /// A step that needs at most `bytes`: without a budget, else with one, else with every block computed again as well.
  /// If none is, the step with the least memory.
  BudgetPoint best(std::int64_t bytes);
  /// The same. Error, with the least memory and the largest values, if it needs more than `bytes`.
  BudgetPoint within(std::int64_t bytes);

 private:
  const std::vector<LoweredProgram>& programs(bool checkpoints_blocks);
  BudgetPoint planned(bool checkpoints_blocks, std::int64_t budget);
  /// The step with a budget for a memory of `bytes`, which may need more if the budget is too small.
  BudgetPoint nearest(bool checkpoints_blocks, std::int64_t bytes);

  TrainingArguments arguments_;
  std::int64_t devices_;
  std::int64_t workspace_ = 0;               // of the step without a budget
  std::vector<LoweredProgram> programs_[2];  // without and with recomputed blocks
};

/// One line for each point.
std::string budget_text(const std::vector<BudgetPoint>& curve);
/// The arguments of the point, whose budget is set for this rank.
TrainingArguments with_point(TrainingArguments arguments, const BudgetPoint& point);

/// Returns the arguments with the recomputation that --max_memory_per_rank needs. Rank 0 plans. Collective.
TrainingArguments within_memory(TrainingArguments arguments);

}  // namespace tessera::trainer
