// SPDX-License-Identifier: Apache-2.0
// Sums that data parallelism cannot do without: those over a dim along which the inputs, not the weights, are cut.
//
//   %x {data,-}  %d {data,-}   %g = dot(%x, %d) over dim 0   ->   %g partial sum{data}: the batch of %x is summed
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// `resharded` (what insert_reshards made) with another remedy on copies that do such a sum: that nothing spares it, and which
/// inputs' dims are summed. An entry parameter counts as a weight if something of its type is returned: it, or its gradient.
Program with_batch_sums_named(const Program& resharded);

}  // namespace tessera
