// SPDX-License-Identifier: Apache-2.0
// Diagonals and triangles of matrices, which are declared in shaping.h.
#include <algorithm>
#include <cstdlib>

#include "tensor/functions/labelled.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/shaping.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {

// ---- diagonals ----------------------------------------------------------------------------------------------------------

namespace {

// The square matrices whose main diagonal is the diagonal of x along the dims `rows` and `columns`.
Value around_diagonal(Value x, std::int64_t offset, int rows, int columns) {
  const std::int64_t row_count = x.type().dim(rows), column_count = x.type().dim(columns);
  const std::int64_t row = std::min(row_count, std::max<std::int64_t>(0, -offset));
  const std::int64_t column = std::min(column_count, std::max<std::int64_t>(0, offset));
  const std::int64_t length = std::min(row_count - row, column_count - column);
  return ops::slice_dim(ops::slice_dim(x, rows, row, row + length), columns, column, column + length);
}

// The diagonal is the last dim.
Value diagonal_value(Value x, std::int64_t offset, int rows, int columns) {
  require(rows != columns, "needs two different dims of {}, got dim {} twice", x.type(), rows);
  const Value line = diagonal_of(around_diagonal(x, offset, rows, columns), rows, columns);
  const int place = rows > columns ? rows - 1 : rows;
  Dims order;
  for (int d = 0; d < line.type().ndim(); ++d)
    if (d != place) order.push_back(d);
  order.push_back(place);
  return place == line.type().ndim() - 1 ? line : ops::transpose(line, std::move(order));
}

// [.., n] -> [.., rows, columns], with the elements on a diagonal of the last two dims.
Value on_diagonal(Value x, std::int64_t offset) {
  const int last = x.type().ndim() - 1;
  const std::int64_t size = x.type().dim(last) + std::abs(offset);
  std::vector<PaddingDim> padding(x.type().dims().size());
  at(padding, last) = {std::max<std::int64_t>(0, -offset), std::max<std::int64_t>(0, offset), 0};
  const Value zero = ops::scalar(*x.builder, x.type().dtype(), 0);
  const Value of_row = offset == 0 ? x : ops::pad(x, zero, std::move(padding));
  Dims dims = of_row.type().dims(), places;
  for (int d = 0; d <= last; ++d) places.push_back(d);
  dims.push_back(size);
  const Value spread = ops::broadcast(of_row, dims, places);
  const Type indices = spread.type().with_dtype(DType::kS32);
  const Value row = ops::iota(*x.builder, indices, last), column = ops::iota(*x.builder, indices, last + 1);
  const Value of_diagonal = ops::add(row, constant_like(row, static_cast<double>(offset)));
  return ops::select(ops::compare(column, of_diagonal, CompareDirection::kEq), spread, constant_like(spread, 0));
}

}  // namespace

Tensor diagonal(Operand x, std::int64_t offset, int dim1, int dim2) {
  return recorded("diagonal", x, [&](Value v) {
    return diagonal_value(v, offset, checked_dim(v.type(), dim1), checked_dim(v.type(), dim2));
  });
}

Tensor diag(Operand x, std::int64_t offset) {
  return recorded("diag", x, [&](Value v) {
    require(v.type().ndim() == 1 || v.type().ndim() == 2, "needs a vector or a matrix, got {}", v.type());
    return v.type().ndim() == 1 ? on_diagonal(v, offset) : diagonal_value(v, offset, 0, 1);
  });
}

Tensor diag_embed(Operand x, std::int64_t offset, int dim1, int dim2) {
  return recorded("diag_embed", x, [&](Value v) {
    require(v.type().ndim() > 0, "needs at least one dim, got {}", v.type());
    const Value matrices = on_diagonal(v, offset);
    const int ndim = matrices.type().ndim();
    const int rows = checked_dim(matrices.type(), dim1), columns = checked_dim(matrices.type(), dim2);
    require(rows != columns, "needs two different dims, got dim {} twice", rows);
    Dims order;
    for (int d = 0, next = 0; d < ndim; ++d) order.push_back(d == rows ? ndim - 2 : d == columns ? ndim - 1 : next++);
    const bool is_ordered = rows == ndim - 2 && columns == ndim - 1;
    return is_ordered ? matrices : ops::transpose(matrices, std::move(order));
  });
}

Tensor trace(Operand x) {
  return recorded("trace", x, [](Value v) {
    require(v.type().ndim() == 2, "needs a matrix, got {}", v.type());
    const DType dtype = v.type().dtype() == DType::kPred ? DType::kS32 : v.type().dtype();
    const Value line = widened(narrowed(diagonal_value(v, 0, 0, 1), dtype));
    return narrowed(ops::reduce(line, Reduction::kSum, {0}), dtype);
  });
}

// ---- triangles ----------------------------------------------------------------------------------------------------------

namespace {

Tensor triangle(std::string_view name, const Operand& x, CompareDirection kept, std::int64_t diagonal) {
  return recorded(name, x, [&](Value v) {
    const int ndim = v.type().ndim();
    require(ndim >= 2, "needs at least two dims, got {}", v.type());
    const Type matrix = Type::array(DType::kS32, {v.type().dim(ndim - 2), v.type().dim(ndim - 1)});
    const Value row = ops::iota(*v.builder, matrix, 0);
    const Value column = ops::iota(*v.builder, matrix, 1);
    const Value bound = diagonal == 0 ? row : ops::add(row, constant_like(row, static_cast<double>(diagonal)));
    return ops::select(ops::broadcast(ops::compare(column, bound, kept), v.type().dims(), {ndim - 2, ndim - 1}), v,
                       constant_like(v, 0));
  });
}

}  // namespace

Tensor tril(Operand x, std::int64_t diagonal) { return triangle("tril", x, CompareDirection::kLe, diagonal); }
Tensor triu(Operand x, std::int64_t diagonal) { return triangle("triu", x, CompareDirection::kGe, diagonal); }

}  // namespace tessera
