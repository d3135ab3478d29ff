// SPDX-License-Identifier: Apache-2.0
// Remedies that were tried. An intermediate value may only replace one gather by another if the cause is a parameter
// before it.
//
//   %x {data,-} (annotated) -> %h = tanh(%x) -> %y = dot(%h, %w)
//   "annotate %h with {-,-}" gathers %x instead of %h; "change the annotation of %x to {-,-}" gathers nothing
#pragma once

#include <functional>

#include "tessera/ir/program.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// The cost of a program after partitioning.
struct TrialOutcome {
  std::vector<CollectiveNote> notes;  // one per collective; combined collectives count separately
  std::int64_t bytes = 0;             // received by one device
  double flops = 0;                   // of one device
};
using Trial = std::function<TrialOutcome(const Program& given)>;

/// Returns `partitioned` with remedies for which `trial` found that the collective disappears and that fewer
/// collectives and bytes remain in total. `partitioned` was made from `given` through `resharded` and costs `before`.
/// The candidates are the resharded value and the values that it is computed from, up to the parameters. A trial does
/// the same as `--annotate` with the text of the remedy. If no candidate meets these conditions, the remedy reports the
/// effect of the best one. The most expensive collectives come first. The number of trials depends on the size of the
/// program; remedies that were not tried are marked.
Program with_tried_remedies(const Program& partitioned, const Program& resharded, const Program& given,
                            const TrialOutcome& before, const Trial& trial);

}  // namespace tessera
