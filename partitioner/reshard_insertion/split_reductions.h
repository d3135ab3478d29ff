// SPDX-License-Identifier: Apache-2.0
// Splits a reduction over sharded dims for which no collective exists: every device reduces its part, then the partial
// results are reduced.
//
//   (%m, %i) = reduce(%x {-,a}, %positions, ..), dimensions={1}, to_apply=%argmax  x f32[16,32], a=2
//   ->  (%m.1, %i.1) = reduce(reshape(%x) {-,a,-}, ..), dimensions={2}             f32[16,2,16] to f32[16,2] {-,a}
//       (%m, %i) = reduce(%m.1, %i.1, ..), dimensions={1}                          16 pairs are gathered, not the rows
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Takes a program in which every value has a sharding. Uneven shards are padded with the init value if that does not
/// change results. Reductions stay unchanged if splitting would not reduce communication, or if the result depends on
/// how often the init value is applied. For xor, the parts begin with 0, and the init value is applied once.
Program split_reductions(const Program& program);

/// Whether f(init, init) = init for constant init values, found by evaluation. Then f(init, f(init, x)) = f(init, x),
/// so the init value may be applied any number of times. This assumes that f is associative, as HLO requires of
/// reductions.
bool absorbs_its_init(const Program& program, const Computation& computation, const Instruction& reduce);

}  // namespace tessera
