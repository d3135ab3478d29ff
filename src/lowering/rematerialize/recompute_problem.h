// SPDX-License-Identifier: Apache-2.0
// Which values to keep and which to compute again, as a decision graph.
//
// A value may be absent in two spans of time. Its gap is the longest time between two reads: there it is kept, or computed
// again before the next read. After its last read, it is dropped, kept or computed again for values that are computed
// again from it. The choices cost the time to compute, and memory during the steps in between.
//
//   x: read in steps 4 and 90        kept from 4 to 90, or computed again
//   y = f(x): read in 6 and 80       kept from 6 to 80, or computed again from x
//
// If x is computed again, y may need it in step 80 already, so x is then computed in step 80.
#pragma once

#include "rematerialize/live_values.h"
#include "tessera/solver/solve.h"

namespace tessera {

/// The choices for one live value. A node is -1 if there is no choice.
struct ValueChoices {
  int gap_node = -1;   // {kept, computed again} in the gap
  int gap_first = 0;   // the first step in the gap that may need the value
  int tail_node = -1;  // {dropped, kept, computed again} after the last read; the last choice only if it is possible
  int tail_first = 0;  // the first step after the last read that may need the value
};

struct RecomputeProblem {
  solver::Problem problem;
  std::vector<ValueChoices> values;  // of each live value
};

/// Costs are picoseconds, usages bytes, times steps. Gaps are choices if they contain a peak: the step of a phase of the
/// program that uses most memory. What the forward pass needs at every `stride`-th boundary between layers is kept: that bounds the chains of values that are
/// computed again from each other, and the memory that these need at once.
RecomputeProblem recompute_problem(const Schedule& schedule, const std::vector<LiveValue>& values, int stride);

/// The work of the solver for one limit: more for larger graphs.
solver::Budget recompute_budget(const RecomputeProblem& graph);

/// Which values an assignment computes again.
struct Recomputed {
  std::vector<bool> in_gap;  // of each live value
  std::vector<bool> in_tail;
  double seconds = 0;
};
Recomputed recomputed_values(const RecomputeProblem& graph, const std::vector<LiveValue>& values,
                             const std::vector<std::int32_t>& choices);

}  // namespace tessera
