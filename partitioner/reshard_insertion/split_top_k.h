// SPDX-License-Identifier: Apache-2.0
// The k first of a dim that is cut: every device finds those of its part, and of all these the k first are found.
//
//   %t = topk(%x {a}), k=2                                  x f32[16], a=4
//   ->  %part = topk(reshape(%x) {a,-}), k=2                f32[4,2] and where they stand in their part
//       %first = topk(reshape(%part)), k=2                  of 8: these are gathered, with their places
//       %t = tuple(%first values, places of %part at %first places)
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Of a program in which every value has a sharding, where that moves at most half the bytes of gathering the dim. Equals stay in their order; parts
/// of an uneven dim are filled up with what comes last.
Program split_top_k(const Program& program);

}  // namespace tessera
