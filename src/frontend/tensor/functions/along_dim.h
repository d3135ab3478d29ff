// SPDX-License-Identifier: Apache-2.0
// Values along one dim: at positions, their running sums, and their places in sorted lines.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "tessera/frontend/tensor/sorting.h"
#include "tracing/recorded.h"

namespace tessera {

/// Traces emit(v, d) along a dim of x. A scalar is a vector of one element, and so is then the result.
template <class F>
Tensor recorded_along(std::string_view name, const Operand& x, int dim, F&& emit) {
  return recorded(name, x, [&](Value v) {
    const int d = checked_line_dim(v.type(), dim);
    return v.type().ndim() > 0 ? emit(v, d) : ops::reshape(emit(ops::reshape(v, {1}), d), {});
  });
}

/// The same for two results: emit(v, d) returns values and their positions.
template <class F>
SortResult recorded_pair_along(std::string_view name, const Operand& x, int dim, F&& emit) {
  SortResult out;
  Value positions;
  out.values = recorded(name, x, [&](Value v) {
    const bool is_scalar = v.type().ndim() == 0;
    const int d = checked_line_dim(v.type(), dim);
    const std::pair<Value, Value> found = emit(is_scalar ? ops::reshape(v, {1}) : v, d);
    positions = is_scalar ? ops::reshape(found.second, {}) : found.second;
    return is_scalar ? ops::reshape(found.first, {}) : found.first;
  });
  out.indices = trace().wrap(positions);
  return out;
}

/// result[i][j] = x[i][index[i][j]] for dim 1. The other dims of index are not larger than those of x.
Value gather_along(Value x, Value index, int dim);
/// Element i is the sum of the elements 0..i along a dim.
Value running_sum(Value x, int dim);
/// The positions at which the values could be inserted into the sorted lines (searchsorted), as s32.
Value insertion_points(Value sorted, Value values, const SearchOptions& options);
/// Combines source[i][j] with x[i][index[i][j]] for dim 1 by a reduction; without one, replaces it. The other dims are
/// equal; positions out of range are ignored.
Value scatter_along(Value x, Value index, Value source, int dim, std::optional<Reduction> reduction);

/// The dims of an array with one index for each element: all dims but `dim` are batch dims.
Dims other_dims(const Type& type, int dim);
/// The first sizes[d] elements of each dim but `dim`.
Value first_elements(Value x, const Dims& sizes, int dim);
/// Error unless the index has integers and the dims of x, and is not larger than x in the dims other than `dim`.
void check_index(const Type& x, const Type& index, int dim);

}  // namespace tessera
