// SPDX-License-Identifier: Apache-2.0
// Splits the selection of the first k along a sharded dim: every device selects the first k of its part, then the first
// k of all these are selected.
//
//   %t = topk(%x {a}), k=2                                  x f32[16], a=4
//   ->  %part = topk(reshape(%x) {a,-}), k=2                f32[4,2] and their positions in each part
//       %first = topk(reshape(%part)), k=2                  of 8, which are gathered with their positions
//       %t = tuple(%first values, positions of %part at %first positions)
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Takes a program in which every value has a sharding. Applies if at most half the bytes of gathering the dim are
/// moved. Equal elements keep their order; parts of an uneven dim are padded with values that are ordered last.
Program split_top_k(const Program& program);

}  // namespace tessera
