// SPDX-License-Identifier: Apache-2.0
// Finds sums that data parallelism cannot avoid: those over a dim along which inputs (not weights) are sharded.
//
//   %x {data,-}  %d {data,-}   %g = dot(%x, %d) over dim 0   ->   %g partial sum{data}: the batch of %x is summed
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Takes the result of insert_reshards. Copies that perform such a sum get another remedy, which states that the sum is
/// necessary and names the summed dims of the inputs. An entry parameter counts as a weight if a value of its type is
/// returned, which is the updated weight or its gradient.
Program with_batch_sums_named(const Program& resharded);

}  // namespace tessera
