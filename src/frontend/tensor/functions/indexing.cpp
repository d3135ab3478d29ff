// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/indexing.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/functions/along_dim.h"
#include "tensor/number_types.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/pointwise.h"
#include "tessera/frontend/tensor/reductions.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

// The dims of an array with one index for each element: all dims but `dim` are batch dims.
Dims other_dims(const Type& type, int dim) {
  Dims out;
  for (int d = 0; d < type.ndim(); ++d)
    if (d != dim) out.push_back(d);
  return out;
}

// [..] -> [.., 1], as s32 or s64.
Value index_vectors(Value index) {
  const DType dtype = index.type().dtype();
  if (dtype != DType::kS32 && dtype != DType::kS64)
    index = ops::convert(index, dtype_size(dtype) < 4 ? DType::kS32 : DType::kS64);
  Dims dims = index.type().dims();
  dims.push_back(1);
  return ops::reshape(index, std::move(dims));
}

void check_index(const Type& x, const Type& index) {
  require(is_integer(index.dtype()), "the index must be integers, got {}", index);
  require(index.ndim() == x.ndim(), "the index needs the {} dims of {}, got {}", x.ndim(), x, index);
}

// The first sizes[d] elements of each dim but `dim`.
Value first_elements(Value x, const Dims& sizes, int dim) {
  std::vector<SliceRange> ranges;
  for (int d = 0; d < x.type().ndim(); ++d)
    ranges.push_back({0, d == dim ? x.type().dim(d) : std::min(x.type().dim(d), at(sizes, d)), 1});
  Dims kept;
  for (const auto& range : ranges) kept.push_back(range.limit);
  return kept == x.type().dims() ? x : ops::slice(x, std::move(ranges));
}

// Adds elements of `value` at the end of each dim but `dim`, up to sizes[d].
Value padded_to(Value x, const Dims& sizes, int dim, double value) {
  std::vector<PaddingDim> padding(x.type().dims().size());
  bool is_padded = false;
  for (int d = 0; d < x.type().ndim(); ++d) {
    if (d == dim || at(sizes, d) <= x.type().dim(d)) continue;
    at(padding, d).high = at(sizes, d) - x.type().dim(d);
    is_padded = true;
  }
  return is_padded ? ops::pad(x, ops::scalar(*x.builder, x.type().dtype(), value), std::move(padding)) : x;
}

// Combines sources with x at the indices along `dim`; their other dims are equal.
Value scatter_along(Value x, Value index, Value source, int dim, Reduction reduction) {
  ScatterAttributes attributes;
  attributes.inserted_window_dims = {dim};
  attributes.scatter_dims_to_operand_dims = {dim};
  attributes.input_batching_dims = other_dims(x.type(), dim);
  attributes.scatter_indices_batching_dims = attributes.input_batching_dims;
  attributes.index_vector_dim = x.type().ndim();
  return ops::scatter({x}, index_vectors(index), {source}, std::move(attributes),
                      ops::reduction_computation(x.builder->program(), reduction, x.type().dtype()));
}

// The operands of a scatter with equal sizes in all dims but `dim`. Positions that are added are out of range.
struct Sources {
  Value index;
  Value source;
};
Sources sources_of(Value x, Value index, const Operand& given, int dim) {
  check_index(x.type(), index.type());
  if (given.is_number()) check_number(given.number(), x.type());
  Value source = given.is_number() ? trace().full(index.type().with_dtype(x.type().dtype()), given.number())
                                   : operand_value(given);
  require(source.type().dtype() == x.type().dtype(), "the source is {}, but the tensor is {}; convert one with .to()",
          source.type(), x.type());
  require(source.type().ndim() == x.type().ndim(), "the source needs the {} dims of {}, got {}", x.type().ndim(),
          x.type(), source.type());
  for (int d = 0; d < x.type().ndim(); ++d) {
    require(index.type().dim(d) <= source.type().dim(d), "dim {} of the index {} is larger than that of the source {}",
            d, index.type(), source.type());
    require(d == dim || index.type().dim(d) <= x.type().dim(d), "dim {} of the index {} is larger than that of {}", d,
            index.type(), x.type());
  }
  source = first_elements(source, index.type().dims(), -1);
  if (!is_signed_int(index.type().dtype())) index = ops::convert(index, DType::kS64);
  return {padded_to(index, x.type().dims(), dim, -1), padded_to(source, x.type().dims(), dim, 0)};
}

}  // namespace

Value gather_along(Value x, Value index, int dim) {
  check_index(x.type(), index.type());
  for (int d = 0; d < x.type().ndim(); ++d)
    require(d == dim || index.type().dim(d) <= x.type().dim(d), "dim {} of the index {} is larger than that of {}", d,
            index.type(), x.type());
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

Value scatter_add_along(Value x, Value index, Value source, int dim) {
  return scatter_along(x, index, source, dim, Reduction::kSum);
}

Tensor gather(Operand x, int dim, Operand index) {
  return recorded("gather", x, index, [&](Value v, Value i) { return gather_along(v, i, checked_dim(v.type(), dim)); });
}

Tensor take_along_dim(Operand x, Operand index, int dim) {
  return recorded("take_along_dim", x, index, [&](Value v, Value i) {
    const int d = checked_dim(v.type(), dim);
    check_index(v.type(), i.type());
    Dims sizes = v.type().dims();
    at(sizes, d) = i.type().dim(d);
    return gather_along(v, broadcast_value(i, sizes), d);
  });
}

Tensor index_select(Operand x, int dim, Operand index) {
  return recorded("index_select", x, index, [&](Value v, Value i) {
    const int d = checked_dim(v.type(), dim);
    require(is_integer(i.type().dtype()) && i.type().ndim() == 1, "the index must be a vector of integers, got {}",
            i.type());
    GatherAttributes attributes;
    attributes.offset_dims = other_dims(v.type(), d);
    attributes.collapsed_slice_dims = {d};
    attributes.start_index_map = {d};
    attributes.index_vector_dim = 1;
    attributes.slice_sizes = v.type().dims();
    at(attributes.slice_sizes, d) = 1;
    return ops::gather(v, index_vectors(i), std::move(attributes));
  });
}

// The last source of each element is found first: a scatter of the positions that keeps the largest. The value is then
// read from there, so the gradient is that of a gather.
Tensor scatter(Operand x, int dim, Operand index, Operand source) {
  return recorded("scatter", x, index, [&](Value v, Value i) {
    const int d = checked_dim(v.type(), dim);
    const Sources sources = sources_of(v, i, source, d);
    const Value positions = ops::iota(*v.builder, sources.index.type().with_dtype(DType::kS32), d);
    const Value none = trace().full(v.type().with_dtype(DType::kS32), -1);
    const Value last = scatter_along(none, sources.index, positions, d, Reduction::kMax);
    const Value is_written = ops::compare(last, none, CompareDirection::kGt);
    if (sources.index.type().dim(d) == 0) return v;
    return ops::select(is_written, gather_along(sources.source, last, d), v);
  });
}

Tensor scatter_add(Operand x, int dim, Operand index, Operand source) {
  return recorded("scatter_add", x, index, [&](Value v, Value i) {
    const int d = checked_dim(v.type(), dim);
    const Sources sources = sources_of(v, i, source, d);
    return scatter_along(v, sources.index, sources.source, d, Reduction::kSum);
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

Tensor cosine_similarity(Operand x, Operand y, int dim, double epsilon) {
  const Tensor product = sum(Operand(x.tensor() * y, x.where()), ReduceOptions{.dims = {dim}});
  const Tensor lengths = norm(Operand(x.tensor(), x.where()), {.dims = {dim}, .keep_dims = true}) *
                         norm(Operand(y.tensor(), y.where()), {.dims = {dim}, .keep_dims = true});
  return product / maximum(lengths.squeeze(dim), epsilon);
}

}  // namespace tessera
