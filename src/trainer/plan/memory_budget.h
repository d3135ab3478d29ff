// SPDX-License-Identifier: Apache-2.0
// --max_memory_per_rank: how many blocks compute their values again in the backward pass, so that a step fits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// The memory of a rank and the modelled time of a step in which the first `blocks` blocks are recomputed.
struct BudgetPoint {
  std::int64_t blocks = 0;
  std::int64_t peak_bytes = 0;
  double seconds = 0;
};

/// Plans a step for about five numbers of blocks from none to all, in order of `blocks`. The machine is cpu-node.
std::vector<BudgetPoint> budget_curve(const TrainingArguments& arguments, std::int64_t devices);
/// Returns the point with the fewest recomputed blocks that needs at most `bytes`; `curve` bounds the search. Error, with
/// the least memory and the largest values, if no point does.
BudgetPoint cheapest_point(const TrainingArguments& arguments, std::int64_t devices,
                           const std::vector<BudgetPoint>& curve, std::int64_t bytes);
/// One line for each point.
std::string budget_text(const std::vector<BudgetPoint>& curve);

/// Returns the arguments with the recomputation that --max_memory_per_rank needs. Rank 0 plans. Collective.
TrainingArguments within_memory(TrainingArguments arguments);

}  // namespace tessera::trainer
