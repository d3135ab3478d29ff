// SPDX-License-Identifier: Apache-2.0
// Functions that move elements. Negative dims count from the end. For flip, flatten, movedim, squeeze and transpose, a
// scalar has the dims 0 and -1, as in PyTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
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
/// parts. A dim without elements gives `count` parts without elements.
std::vector<Tensor> chunk(Operand x, std::int64_t count, int dim = 0);

/// The parts of x at each position of a dim, without the dim.
std::vector<Tensor> unbind(Operand x, int dim = 0);

/// The same elements with other sizes. One size may be -1; it is then computed from the others.
Tensor reshape(Operand x, Dims sizes);
/// The same as reshape.
Tensor view(Operand x, Dims sizes);
/// Adds a dim of size 1.
Tensor unsqueeze(Operand x, int dim);
/// Removes dims whose size is 1. Other dims stay, as in PyTorch.
Tensor squeeze(Operand x, int dim);
Tensor squeeze(Operand x, const std::vector<int>& dims);
/// Removes all dims of size 1.
Tensor squeeze(Operand x);
/// Dim i of the result is dim order[i] of x.
Tensor permute(Operand x, Dims order);
/// Exchanges two dims.
Tensor transpose(Operand x, int first, int second);
/// The same as transpose.
Tensor swapaxes(Operand x, int first, int second);
/// Moves dims to other positions. The others keep their order.
Tensor movedim(Operand x, int source, int destination);
Tensor movedim(Operand x, const std::vector<int>& sources, const std::vector<int>& destinations);
/// x with the value that it has now. A gradient flows through the result.
Tensor clone(Operand x);
/// Divides a dim into dims of these sizes, of which one may be -1.
Tensor unflatten(Operand x, int dim, const Dims& sizes);
/// Merges the dims start..end into one.
Tensor flatten(Operand x, int start = 0, int end = -1);
/// Repeats dims of size 1 to these sizes. -1 keeps a size. `sizes` may begin with additional dims.
Tensor expand(Operand x, Dims sizes);
/// NumPy broadcasting to `sizes`.
Tensor broadcast_to(Operand x, Dims sizes);
/// Repeats the tensor counts[i] times along dim i. `counts` may begin with additional dims.
Tensor tile(Operand x, const Dims& counts);
/// The same, but there must be a count for each dim of x, as in PyTorch.
Tensor repeat(Operand x, const Dims& counts);
/// Repeats each element along a dim `count` times. Without a dim, x is a vector of all elements. bounded.h has the form
/// with a count for each element.
Tensor repeat_interleave(Operand x, std::int64_t count, std::optional<int> dim = {});
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

/// The elements on a diagonal of two dims, as the last dim of the result. Diagonal k is k columns to the right of the
/// main one.
Tensor diagonal(Operand x, std::int64_t offset = 0, int dim1 = 0, int dim2 = 1);
/// The diagonal of a matrix, or the matrix with a vector on its diagonal.
Tensor diag(Operand x, std::int64_t offset = 0);
/// Matrices in the dims dim1 and dim2 of the result, with the last dim of x on a diagonal and zeros elsewhere.
Tensor diag_embed(Operand x, std::int64_t offset = 0, int dim1 = -2, int dim2 = -1);
/// The sum of the diagonal of a matrix; for pred the number of true elements, as s32.
Tensor trace(Operand x);

/// Windows of `size` elements of a dim, which start `step` elements apart. The dim becomes the windows, and their
/// elements become the last dim.
Tensor unfold(Operand x, int dim, std::int64_t size, std::int64_t step);

/// The order of the dims of a grid: vector i varies along dim i (kIj), or with the first two dims exchanged (kXy).
enum class GridIndexing : std::uint8_t { kIj, kXy };
/// Repeats each vector along the dims of the others.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, GridIndexing indexing = GridIndexing::kIj,
                             std::source_location where = std::source_location::current());

}  // namespace tessera
