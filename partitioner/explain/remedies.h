// SPDX-License-Identifier: Apache-2.0
// Remedies with their estimated effect. A remedy for an intermediate value often only moves the gather, because the
// cause is the annotation of a parameter from which the value is computed.
//
//   %x {data,-} (annotated) -> %h = tanh(%x) -> %y = dot(%h, %w)
//   "annotate %h with {-,-}" gathers %x instead of %h; "change the annotation of %x to {-,-}" gathers nothing
#pragma once

#include "propagation/propagate.h"
#include "tessera/ir/program.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {

/// A partitioned program for whose collectives remedies are searched.
struct ExplainedProgram {
  const Program& given;      // the input
  const Program& resharded;  // after insert_reshards()
  const std::vector<CollectiveNote>& notes;
  Alternatives& alternatives;
};

/// Returns `partitioned` with remedies after which, by the estimate, the collective disappears and fewer collectives
/// and bytes remain in total. The candidates are the resharded value and the values that it is computed from, up to the
/// parameters. A candidate means the same as `--annotate` with the text of the remedy. If no candidate meets these
/// conditions, the remedy reports the effect of the best one. The search begins with the most expensive collectives. At
/// most `most_estimates` candidates are estimated; other remedies get Remedy::Trial::kSkipped.
Program with_estimated_remedies(const Program& partitioned, const ExplainedProgram& explained,
                                std::int64_t most_estimates);

}  // namespace tessera
