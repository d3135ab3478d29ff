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
#include "tessera/sharding/sharding.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// Takes a program in which every value has a sharding. The pass changes selections for which split_receives_less() is
/// true. Equal elements keep their order; parts of an uneven dim are padded with values that are ordered last.
Program split_top_k(const Program& program);

/// Whether devices receive fewer bytes if they gather the first k elements of each tile of a sharded dim than if they
/// gather the dim, or move it to another dim and the results back. `operand_bytes` and `result_bytes`: of an element
/// along the dim.
bool split_receives_less(const Type& array, const Sharding& sharding, int dim, std::int64_t k,
                         std::int64_t operand_bytes, std::int64_t result_bytes);

/// The scalar that is last in ascending or descending order. Floats have the total order.
Literal last_in_order(DType dtype, bool descending);

}  // namespace tessera
