// SPDX-License-Identifier: Apache-2.0
// Remedies that were tried: a value in between may swap one gather for another, where the cause is a parameter further up.
//
//   %x {data,-} (annotated) -> %h = tanh(%x) -> %y = dot(%h, %w)     "annotate %h with {-,-}" gathers %x instead of %h;
//                                                                    "change the annotation of %x to {-,-}" gathers nothing
#pragma once

#include <functional>

#include "tessera/ir/program.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// What a program costs once partitioned.
struct TrialOutcome {
  std::vector<CollectiveNote> notes;  // of each collective; of those that travel together each by itself
  std::int64_t bytes = 0;             // received by a device
  double flops = 0;                   // of a device
};
using Trial = std::function<TrialOutcome(const Program& given)>;

/// `partitioned` (which came of `given` by way of `resharded`, at the price `before`) with remedies under which `trial` found the
/// collective gone, and fewer collectives and bytes in all: of the value itself, else of what it is made of, up to the parameters. A
/// trial is what `--annotate` with the remedy's words does. Where none does all that, what the best one does. Those that move most come
/// first; how many are tried is bounded by the program's size, and what is left says that it was not.
Program with_tried_remedies(const Program& partitioned, const Program& resharded, const Program& given,
                            const TrialOutcome& before, const Trial& trial);

}  // namespace tessera
