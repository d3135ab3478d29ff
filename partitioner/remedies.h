// SPDX-License-Identifier: Apache-2.0
// Remedies that were tried: a value in between may swap one gather for another, where the cause is a parameter further up.
//
//   %x {data,-} (annotated) -> %h = tanh(%x) -> %y = dot(%h, %w)     "annotate %h with {-,-}" gathers %x instead of %h;
//                                                                    "change the annotation of %x to {-,-}" gathers nothing
#pragma once

#include <functional>

#include "tessera/ir/program.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// What a program costs once partitioned.
struct TrialOutcome {
  std::int64_t collectives = 0;  // parts of combined ones each by itself
  std::int64_t bytes = 0;        // received by a device
  double flops = 0;              // of a device
};
using Trial = std::function<TrialOutcome(const Program& given)>;

/// `resharded` (what insert_reshards made of `given`) with remedies under which `trial` found fewer collectives and bytes: of the value
/// itself, else of what it is made of, up to the parameters. Where none does so, what the best one does. Those that move most come
/// first; how many are tried is bounded by the program's size.
Program with_tried_remedies(const Program& resharded, const Program& given, const Topology& topology,
                            const Trial& trial);

}  // namespace tessera
