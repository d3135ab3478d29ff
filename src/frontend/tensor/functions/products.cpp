// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/products.h"

#include <algorithm>

#include "tensor/functions/labelled.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tracing/recorded.h"

namespace tessera {

Tensor dot(Operand lhs, Operand rhs, const DotDims& dims) {
  return recorded("dot", lhs, rhs, [&](Value x, Value y) {
    return ops::dot(x, y, {dims.lhs_batch, dims.lhs_contracting, dims.rhs_batch, dims.rhs_contracting});
  });
}

namespace {

// [.., m, k] x [.., k, n] with equal batch dims.
Value matmul_of_equal_batches(Value x, Value y) {
  const int batch = y.type().ndim() - 2;
  DotAttributes dims;
  for (int d = 0; d < batch; ++d) {
    dims.lhs_batch_dims.push_back(d);
    dims.rhs_batch_dims.push_back(d);
  }
  dims.lhs_contracting_dims = {x.type().ndim() - 1};
  dims.rhs_contracting_dims = {batch};
  return ops::dot(x, y, std::move(dims));
}

// Batch dim i from the end has the label i; a dim of size 1 that broadcasts is removed.
enum MatrixLabel { kRow = -1, kInner = -2, kColumn = -3 };
Labelled with_labels(Value v, const Dims& batch, const Labels& matrix) {
  Labelled out{v, {}};
  Dims sizes;
  const int own = v.type().ndim() - isize(matrix);
  for (int d = 0; d < own; ++d) {
    const int from_end = own - d;
    if (v.type().dim(d) == 1 && at(batch, isize(batch) - from_end) != 1) continue;
    out.labels.push_back(from_end);
    sizes.push_back(v.type().dim(d));
  }
  for (int i = 0; i < isize(matrix); ++i) {
    out.labels.push_back(at(matrix, i));
    sizes.push_back(v.type().dim(own + i));
  }
  if (sizes != v.type().dims()) out.value = ops::reshape(v, std::move(sizes));
  return out;
}

Value matmul_that_broadcasts(Value x, Value y) {
  const auto batch_of = [](Value v) {
    const int count = std::max(0, v.type().ndim() - 2);
    return Dims(v.type().dims().begin(), v.type().dims().begin() + count);
  };
  const Dims batch = broadcast_dims(batch_of(x), batch_of(y));
  Labels kept;
  for (int i = isize(batch); i > 0; --i) kept.push_back(i);
  if (x.type().ndim() > 1) kept.push_back(kRow);
  if (y.type().ndim() > 1) kept.push_back(kColumn);
  const Labelled lhs = with_labels(x, batch, x.type().ndim() > 1 ? Labels{kRow, kInner} : Labels{kInner});
  const Labelled rhs = with_labels(y, batch, y.type().ndim() > 1 ? Labels{kInner, kColumn} : Labels{kInner});
  return in_order(contract(lhs, rhs, kept), kept);
}

}  // namespace

Tensor matmul(Operand lhs, Operand rhs) {
  return recorded("matmul", lhs, rhs, [&](Value x, Value y) {
    require(x.type().ndim() >= 1 && y.type().ndim() >= 1, "needs at least one dim on each side, got {} and {}",
            x.type(), y.type());
    const int m = x.type().ndim();
    const int n = y.type().ndim();
    if (m >= 2 && n == 2) return ops::matmul(x, y);
    const auto& a = x.type().dims();
    const auto& b = y.type().dims();
    if (m >= 2 && m == n && std::equal(a.begin(), a.end() - 2, b.begin())) return matmul_of_equal_batches(x, y);
    const std::int64_t inner = x.type().dim(m - 1);
    require(inner == y.type().dim(std::max(0, n - 2)), "the last dim of {} is {}, but dim {} of {} is {}", x.type(),
            inner, std::max(0, n - 2), y.type(), y.type().dim(std::max(0, n - 2)));
    require(x.type().dtype() == y.type().dtype(), "operands have element types {} and {}; convert one with .to()",
            dtype_name(x.type().dtype()), dtype_name(y.type().dtype()));
    return matmul_that_broadcasts(x, y);
  });
}

}  // namespace tessera
