// SPDX-License-Identifier: Apache-2.0
// Functions that move elements. Negative dims count from the end.
#pragma once

#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// Concatenates tensors along a dim.
Tensor concat(const std::vector<Tensor>& parts, int dim, std::source_location where = std::source_location::current());
/// The same as concat.
Tensor cat(const std::vector<Tensor>& parts, int dim = 0, std::source_location where = std::source_location::current());
/// Concatenates tensors of one shape along a new dim.
Tensor stack(const std::vector<Tensor>& parts, int dim = 0,
             std::source_location where = std::source_location::current());
/// Divides a dim into parts of `size` elements; the last part may be smaller.
std::vector<Tensor> split(Operand x, std::int64_t size, int dim = 0);
/// Divides a dim into parts of these sizes, which must add up to the size of the dim.
std::vector<Tensor> split(Operand x, const std::vector<std::int64_t>& sizes, int dim = 0);
/// Divides a dim into `count` parts of equal size. As in PyTorch, the last part may be smaller, and there may be fewer
/// parts.
std::vector<Tensor> chunk(Operand x, std::int64_t count, int dim = 0);

/// Dim i of the result is dim order[i] of x.
Tensor permute(Operand x, Dims order);
/// Exchanges two dims.
Tensor transpose(Operand x, int first, int second);
/// Merges the dims start..end into one.
Tensor flatten(Operand x, int start = 0, int end = -1);
/// Repeats dims of size 1 to these sizes. -1 keeps a size. `sizes` may begin with additional dims.
Tensor expand(Operand x, Dims sizes);
/// Repeats the tensor counts[i] times along dim i. `counts` may begin with additional dims.
Tensor tile(Operand x, const Dims& counts);
/// Moves element i of a dim to i + shift, cyclically.
Tensor roll(Operand x, std::int64_t shift, int dim);
Tensor roll(Operand x, const std::vector<std::int64_t>& shifts, const std::vector<int>& dims);
/// Reverses the order of the elements along these dims.
Tensor flip(Operand x, int dim);
Tensor flip(Operand x, const std::vector<int>& dims);
/// Keeps the elements of the last two dims on and below the diagonal; others become 0. Diagonal k is k columns to the
/// right of the main one.
Tensor tril(Operand x, std::int64_t diagonal = 0);
/// Keeps the elements on and above the diagonal.
Tensor triu(Operand x, std::int64_t diagonal = 0);
/// Pads a dim with `low` elements of `value` before and `high` after it. Negative numbers remove elements.
Tensor pad(Operand x, int dim, std::int64_t low, std::int64_t high, double value = 0);

}  // namespace tessera
