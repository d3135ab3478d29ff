// SPDX-License-Identifier: Apache-2.0
// A reduction that no collective knows, over sharded dims: every device reduces its part, then the parts' results are reduced.
//
//   (%m, %i) = reduce(%x {-,a}, %positions, ..), dimensions={1}, to_apply=%argmax    x f32[16,32], a=2
//   ->  (%m.1, %i.1) = reduce(reshape(%x) {-,a,-}, ..), dimensions={2}               f32[16,2,16] to f32[16,2] {-,a}
//       (%m, %i) = reduce(%m.1, %i.1, ..), dimensions={1}                            16 pairs are gathered, not the rows
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Of a program in which every value has a sharding. Uneven shards are filled up with the init, where that changes nothing behind
/// other elements. Reductions stay as they are where no less would be exchanged, and where the init, met twice, would count twice; but
/// by xor parts begin with 0, and the init is met once.
Program split_reductions(const Program& program);

/// f(init, init) = init, for constant inits, found by evaluation. Then f(init, f(init, x)) = f(init, x), and the init may be met as often as
/// one likes. Assumed: f is associative, as HLO asks of reductions.
bool absorbs_its_init(const Program& program, const Computation& computation, const Instruction& reduce);

}  // namespace tessera
