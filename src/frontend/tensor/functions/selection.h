// SPDX-License-Identifier: Apache-2.0
// A subscript of an array. Its numbers, ranges and new dims select a part of the array: a slice, in another shape. Its
// tensors then select positions along dims of this part (positions.h).
//
//   x[{Range(1, 4), ids, 2}]    x: [m, n, k]    the part: [3, n]    the tensor ids selects along dim 1 of the part
#pragma once

#include <span>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"
#include "tessera/ir/builder.h"
#include "tessera/ops/structural.h"

namespace tessera {

/// A tensor of a subscript.
struct SelectedIds {
  int dim = 0;  // of the part
  Operand ids;
};

struct Selection {
  std::vector<SliceRange> ranges;  // one for each dim of the array
  Dims reversed;                   // the dims of the array that are read backwards
  Dims sizes;                      // of the part
  std::vector<SelectedIds> ids;    // with ascending dims
};

/// Errors: a number out of range, too many entries, two Ellipsis, a mask.
Selection selection_of(const Type& array, std::span<const Index> indices);
/// The part of x.
Value part_of(Value x, const Selection& selection);
/// x with other elements in the part.
Value with_part(Value x, const Selection& selection, Value part);

}  // namespace tessera
