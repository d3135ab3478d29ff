// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/indexing.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/functions/along_dim.h"
#include "tensor/functions/positions.h"
#include "tensor/number_types.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

void check_index_type(const Type& x, const Type& index) {
  require(is_integer(index.dtype()), "the index must be integers, got {}", index);
  require(index.ndim() == x.ndim(), "the index needs the {} dims of {}, got {}", x.ndim(), x, index);
}

}  // namespace

Dims other_dims(const Type& type, int dim) {
  Dims out;
  for (int d = 0; d < type.ndim(); ++d)
    if (d != dim) out.push_back(d);
  return out;
}

void check_index(const Type& x, const Type& index, int dim) {
  check_index_type(x, index);
  for (int d = 0; d < x.ndim(); ++d)
    require(d == dim || index.dim(d) <= x.dim(d), "dim {} of the index {} is larger than that of {}", d, index, x);
}

Value first_elements(Value x, const Dims& sizes, int dim) {
  std::vector<SliceRange> ranges;
  for (int d = 0; d < x.type().ndim(); ++d)
    ranges.push_back({0, d == dim ? x.type().dim(d) : std::min(x.type().dim(d), at(sizes, d)), 1});
  Dims kept;
  for (const auto& range : ranges) kept.push_back(range.limit);
  return kept == x.type().dims() ? x : ops::slice(x, std::move(ranges));
}

Value gather_along(Value x, Value index, int dim) {
  check_index(x.type(), index.type(), dim);
  x = first_elements(x, index.type().dims(), dim);
  GatherAttributes attributes;
  attributes.collapsed_slice_dims = {dim};
  attributes.start_index_map = {dim};
  attributes.operand_batching_dims = other_dims(x.type(), dim);
  attributes.start_indices_batching_dims = attributes.operand_batching_dims;
  attributes.index_vector_dim = x.type().ndim();
  attributes.slice_sizes = Dims(x.type().dims().size(), 1);
  return ops::gather(x, index_vectors(index), std::move(attributes));
}

Tensor gather(Operand x, int dim, Operand index) {
  return recorded("gather", x, index, [&](Value v, Value i) { return gather_along(v, i, checked_dim(v.type(), dim)); });
}

Tensor take_along_dim(Operand x, Operand index, int dim) {
  return recorded("take_along_dim", x, index, [&](Value v, Value i) {
    const int d = checked_dim(v.type(), dim);
    check_index_type(v.type(), i.type());
    Dims sizes = v.type().dims();
    at(sizes, d) = i.type().dim(d);
    return gather_along(v, broadcast_value(i, sizes), d);
  });
}

Tensor index_select(Operand x, int dim, Operand index) {
  return recorded("index_select", x, index, [&](Value v, Value i) {
    const int d = checked_dim(v.type(), dim);
    return gather_at(v, positions_along(d, i));
  });
}

Tensor take(Operand x, Operand index) {
  return recorded("take", x, index, [&](Value v, Value i) {
    if (v.type().ndim() == 0) v = ops::reshape(v, {1});
    return gather_at(v, positions_in_order(v.type(), i));
  });
}

Tensor select(Operand x, int dim, std::int64_t index) { return x.tensor().select(dim, index, x.where()); }

Tensor narrow(Operand x, int dim, std::int64_t start, std::int64_t length) {
  return recorded("narrow", x, [&](Value v) {
    const int d = checked_dim(v.type(), dim);
    const std::int64_t size = v.type().dim(d);
    const std::int64_t from = start < 0 ? start + size : start;
    require(from >= 0 && from <= size && length >= 0 && length <= size - from,
            "{} elements from {} on are not all in dim {} of {}", length, start, d, v.type());
    return ops::slice_dim(v, d, from, from + length);
  });
}

Tensor narrow(Operand x, int dim, const Tensor& start, std::int64_t length) {
  return recorded("narrow", x, {start, x.where()}, [&](Value v, Value first) {
    const int d = checked_dim(v.type(), dim);
    require(first.type().ndim() == 0 && is_integer(first.type().dtype()),
            "the start must be a scalar of an integer type, got {}", first.type());
    require(length >= 0 && length <= v.type().dim(d), "dim {} of {} does not have {} elements", d, v.type(), length);
    std::vector<Value> starts(v.type().dims().size(), constant_like(first, 0));
    at(starts, d) = first;
    Dims sizes = v.type().dims();
    at(sizes, d) = length;
    return ops::dynamic_slice(v, starts, std::move(sizes));
  });
}

Tensor one_hot(Operand ids, std::int64_t classes, DType dtype) {
  return recorded("one_hot", ids, [&](Value v) {
    require(is_integer(v.type().dtype()), "the ids must be integers, got {}", v.type());
    require(classes >= 0, "needs a number of classes, got {}", classes);
    Dims dims = v.type().dims();
    Dims places;
    for (int d = 0; d < isize(dims); ++d) places.push_back(d);
    dims.push_back(classes);
    const Type type = Type::array(v.type().dtype(), dims);
    const Value repeated = ops::broadcast(v, dims, std::move(places));
    const Value positions = ops::iota(*v.builder, type, v.type().ndim());
    return narrowed(ops::compare(repeated, positions, CompareDirection::kEq), dtype);
  });
}

}  // namespace tessera
