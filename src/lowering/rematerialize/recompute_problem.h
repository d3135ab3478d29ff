// SPDX-License-Identifier: Apache-2.0
// Which values to keep, to compute again and to write to a file, as a decision graph.
//
// A value may be absent in two spans of time. Its gap is the longest time between two reads: there it is kept, or made
// again before the next read. After its last read, it is dropped, kept or made again for values that are computed
// again from it. To make a value again is to compute it from its inputs, or to read it from a file. The choices cost the
// time for this, and memory during the steps in between.
//
//   x: read in steps 4 and 90        kept from 4 to 90, or made again
//   y = f(x): read in 6 and 80       kept from 6 to 80, or computed again from x, or read from a file
//
// If x is made again, y may need it in step 80 already, so x is then made in step 80.
#pragma once

#include "rematerialize/live_values.h"
#include "tessera/solver/solve.h"

namespace tessera {

/// What happens to a value in its gap, or after its last read.
enum class SpanStrategy : std::uint8_t { kDropped, kKept, kComputedAgain, kInFile };

/// The choices for one live value in its gap, or after its last read.
struct SpanChoices {
  int node = -1;                         // -1: there is no choice
  std::vector<SpanStrategy> strategies;  // by the number of the choice
  int first = 0;                         // the first step in the span that may need the value
};
struct ValueChoices {
  SpanChoices gap;
  SpanChoices tail;
};

struct RecomputeProblem {
  solver::Problem problem;
  std::vector<ValueChoices> values;  // of each live value
};

/// Costs are picoseconds, usages bytes, times steps. `offload`: values may be written to a file. Gaps are choices if they contain a peak: the step of a phase of the
/// program that uses most memory. What the forward pass needs at every `stride`-th boundary between layers is kept: that bounds the chains of values that are
/// computed again from each other, and the memory that these need at once.
RecomputeProblem recompute_problem(const Schedule& schedule, const std::vector<LiveValue>& values, int stride,
                                   bool offload);

/// The work of the solver for one limit: more for larger graphs.
solver::Budget recompute_budget(const RecomputeProblem& graph);

/// What an assignment does with each live value: kKept where there is no choice.
struct Recomputed {
  std::vector<SpanStrategy> in_gap;
  std::vector<SpanStrategy> in_tail;
  double seconds = 0;
};
inline bool is_made_again(SpanStrategy strategy) {
  return strategy == SpanStrategy::kComputedAgain || strategy == SpanStrategy::kInFile;
}
Recomputed recomputed_values(const RecomputeProblem& graph, const std::vector<LiveValue>& values,
                             const std::vector<std::int32_t>& choices);

}  // namespace tessera
