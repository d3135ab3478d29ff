// SPDX-License-Identifier: Apache-2.0
// Elements of an array at positions along some of its dims. The positions are tensors of integers.
//
//   dims {1, 2} of x [m, n, k, l], and two index tensors of shape [a, b]:    elements [m, a, b, l]
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tensor/functions/selection.h"

namespace tessera {

struct Positions {
  Dims dims;      // the dims along which elements are selected, ascending
  Dims sizes;     // those of the index tensors, which were broadcast
  Value indices;  // [sizes.., component]: one component for each of `dims`
  int place = 0;  // the first dim of the elements that is one of `sizes`
};

/// The positions of the tensors of a subscript in its part. As in PyTorch, the dims of the tensors replace the dims along
/// which they select if these are adjacent, and are the first dims otherwise. A scalar counts as a number.
Positions positions_of(const Type& part, const std::vector<SelectedIds>& given);
/// One vector of positions along a dim.
Positions positions_along(int dim, Value index);
/// Positions of elements in row-major order.
Positions positions_in_order(const Type& array, Value index);

/// [..] -> [.., 1], as s32 or s64: an index vector for each position.
Value index_vectors(Value index);
/// Counts negative positions from the end of a dim of this size.
Value from_start(Value ids, std::int64_t size);

/// The shape of the elements.
Dims element_dims(const Type& array, const Positions& positions);
/// Reads the elements. Positions out of range read the nearest element. Error if the array has none.
Value gather_at(Value array, const Positions& positions);
/// Writes elements, or combines them with those of the array by a reduction. Positions out of range are ignored. Of
/// several values for one element, the last one is written.
Value scatter_at(Value array, const Positions& positions, Value values, std::optional<Reduction> reduction);

/// A number or a tensor as values of this type, to whose dims it broadcasts. Errors: other elements, other dims.
Value values_of(const Operand& given, const Type& type);
/// Error unless the values of this role have the element type of x.
void require_same_elements(std::string_view role, const Type& values, const Type& x);
/// The computation of a reduction; without one, that replaces elements.
ComputationId combiner_of(Builder& builder, std::optional<Reduction> reduction, DType dtype);

}  // namespace tessera
