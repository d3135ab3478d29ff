// SPDX-License-Identifier: Apache-2.0
// Splits a cumulative op along a sharded dim: every device accumulates its part, then adds the total of the previous
// parts.
//
//   %y = reduce-window(%x {a}, %zero), window={size=16 pad=15_0}     x f32[16], a=4
//   ->  %part = reduce-window(reshape(%x) {a,-}, %zero)              f32[4,4]: sums within each part
//       %before = reduce-window(%part[:3,3], %zero)                  f32[4]: sums of previous parts; gathers 3 numbers
//       %y = reshape(add(broadcast(%before), %part))
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Takes a program in which every value has a sharding. Windows that do not cover all previous (or following) elements
/// stay unchanged. Uneven dims are padded with the init value.
Program split_scans(const Program& program);
/// Whether split_scans() would change anything.
bool has_scans_to_split(const Program& program);

}  // namespace tessera
