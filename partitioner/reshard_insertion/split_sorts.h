// SPDX-License-Identifier: Apache-2.0
// Splits a sort along a sharded dim if only its first elements are read: every device sorts its tile, then the first
// elements of all tiles are sorted. PyTorch/XLA writes top-k in this form.
//
//   %s = sort(%x {a}), to_apply=%greater                     x f32[16], a=4
//   %t = slice(%s), slice={[0:2]}
//   ->  %part = sort(reshape(%x) {a,-}), dimensions={1}      f32[4,4]
//       %s = sort(reshape(slice(%part)))                     f32[8]: the first 2 of each tile, which are gathered
//       %t = slice(%s), slice={[0:2]}
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Takes a program in which every value has a sharding. The pass changes sorts for which split_receives_less()
/// (split_top_k.h) is true. Assumes that the comparator is a strict weak order, as HLO requires; equal elements keep
/// their order. An uneven dim is padded with values that are ordered last, so it is only split if the comparator
/// compares one operand in the order of integers or in the total order of floats.
Program split_sorts(const Program& program);

}  // namespace tessera
