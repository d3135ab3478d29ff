// SPDX-License-Identifier: Apache-2.0
// A cumulative op along a dim that is cut: every device accumulates its part, then adds what came before it.
//
//   %y = reduce-window(%x {a}, %zero), window={size=16 pad=15_0}     x f32[16], a=4
//   ->  %part = reduce-window(reshape(%x) {a,-}, %zero)              f32[4,4]: sums within each part
//       %before = reduce-window(%part[:3,3], %zero)                  f32[4]: the sums of the parts before; 3 numbers are gathered
//       %y = reshape(add(broadcast(%before), %part))
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Of a program in which every value has a sharding. Windows that are not over all that comes before (or behind) stay as they are. Where
/// a dim is cut unevenly the init fills up the last parts.
Program split_scans(const Program& program);
/// Whether it would change anything.
bool has_scans_to_split(const Program& program);

}  // namespace tessera
