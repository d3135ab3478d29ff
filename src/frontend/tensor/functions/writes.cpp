// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/writes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

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

// ---- one position for each element --------------------------------------------------------------------------------------

Value scatter_along(Value x, Value index, Value source, int dim, std::optional<Reduction> reduction) {
  const Type type = x.type();
  if (type.element_count() == 0 || source.type().element_count() == 0) return x;
  ScatterAttributes attributes;
  attributes.inserted_window_dims = {dim};
  attributes.scatter_dims_to_operand_dims = {dim};
  attributes.input_batching_dims = other_dims(type, dim);
  attributes.scatter_indices_batching_dims = attributes.input_batching_dims;
  attributes.index_vector_dim = type.ndim();
  return ops::scatter({x}, index_vectors(index), {source}, std::move(attributes),
                      combiner_of(*x.builder, reduction, type.dtype()));
}

namespace {

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

// The operands of a scatter with equal sizes in all dims but `dim`. Positions that are added are out of range.
struct Sources {
  Value index;
  Value source;
};
Sources sources_of(Value x, Value index, const Operand& given, int dim) {
  check_index(x.type(), index.type(), dim);
  if (given.is_number()) check_number(given.number(), x.type());
  Value source = given.is_number() ? trace().full(index.type().with_dtype(x.type().dtype()), given.number())
                                   : operand_value(given);
  require_same_elements("source", source.type(), x.type());
  require(source.type().ndim() == x.type().ndim(), "the source needs the {} dims of {}, got {}", x.type().ndim(),
          x.type(), source.type());
  for (int d = 0; d < x.type().ndim(); ++d)
    require(index.type().dim(d) <= source.type().dim(d), "dim {} of the index {} is larger than that of the source {}",
            d, index.type(), source.type());
  source = first_elements(source, index.type().dims(), -1);
  if (!is_signed_int(index.type().dtype())) index = ops::convert(index, DType::kS64);
  const Dims sizes = x.type().dims();
  return {padded_to(index, sizes, dim, -1), padded_to(source, sizes, dim, 0)};
}

Tensor scattered(std::string_view name, const Operand& x, int dim, const Operand& index, const Operand& source,
                 std::optional<Reduction> reduction) {
  return recorded(name, x, index, [&](Value v, Value i) {
    const int d = checked_dim(v.type(), dim);
    const Sources sources = sources_of(v, i, source, d);
    return scatter_along(v, sources.index, sources.source, d, reduction);
  });
}

}  // namespace

Tensor scatter(Operand x, int dim, Operand index, Operand source) {
  return scattered("scatter", x, dim, index, source, std::nullopt);
}
Tensor scatter_add(Operand x, int dim, Operand index, Operand source) {
  return scattered("scatter_add", x, dim, index, source, Reduction::kSum);
}

// ---- scatter_reduce -----------------------------------------------------------------------------------------------------

namespace {

Reduction reduction_of(ScatterReduction reduction) {
  switch (reduction) {
    case ScatterReduction::kProd: return Reduction::kProduct;
    case ScatterReduction::kAmax: return Reduction::kMax;
    case ScatterReduction::kAmin: return Reduction::kMin;
    default: return Reduction::kSum;
  }
}

// Reduces sources into x. Without include_self, the elements that have sources start from the identity.
Value reduced_into(Value x, const Sources& sources, int dim, Reduction reduction, bool include_self) {
  if (!include_self) {
    const Value identity = ops::constant(*x.builder, reduction_identity(reduction, x.type().dtype()));
    x = scatter_along(x, sources.index, ops::splat(identity, sources.index.type().dims()), dim, std::nullopt);
  }
  return scatter_along(x, sources.index, sources.source, dim, reduction);
}

Value mean_into(Value x, const Sources& sources, int dim, bool include_self) {
  require(is_float(x.type().dtype()), "the mean of {} would be truncated to an integer; convert it with .to() first",
          x.type());
  const Value start = widened(x);
  const Value source = widened(sources.source);
  const Value sum = reduced_into(start, {sources.index, source}, dim, Reduction::kSum, include_self);
  const Sources ones{sources.index, constant_like(source, 1)};
  const Value count = reduced_into(constant_like(start, 1), ones, dim, Reduction::kSum, include_self);
  return narrowed(ops::divide(sum, count), x.type().dtype());
}

}  // namespace

Tensor scatter_reduce(Operand x, int dim, Operand index, Operand source, ScatterReduction reduction,
                      ScatterReduceOptions options) {
  return recorded("scatter_reduce", x, index, [&](Value v, Value i) {
    const int d = checked_dim(v.type(), dim);
    const Sources sources = sources_of(v, i, source, d);
    if (reduction == ScatterReduction::kMean) return mean_into(v, sources, d, options.include_self);
    return reduced_into(v, sources, d, reduction_of(reduction), options.include_self);
  });
}

// ---- one position for each part along a dim -----------------------------------------------------------------------------

namespace {

Tensor parts_written(std::string_view name, const Operand& x, int dim, const Operand& index, const Operand& source,
                     std::optional<Reduction> reduction) {
  return recorded(name, x, index, [&](Value v, Value i) {
    const Positions positions = positions_along(checked_dim(v.type(), dim), i);
    const Value parts = operand_value(source);
    require_same_elements("source", parts.type(), v.type());
    const Dims expected = element_dims(v.type(), positions);
    require(parts.type().dims() == expected, "the source must have the shape [{}], got {}", fmt::join(expected, ","),
            parts.type());
    return scatter_at(v, positions, parts, reduction);
  });
}

}  // namespace

Tensor index_add(Operand x, int dim, Operand index, Operand source) {
  return parts_written("index_add", x, dim, index, source, Reduction::kSum);
}
Tensor index_copy(Operand x, int dim, Operand index, Operand source) {
  return parts_written("index_copy", x, dim, index, source, std::nullopt);
}

Tensor index_fill(Operand x, int dim, Operand index, Operand value) {
  return recorded("index_fill", x, index, [&](Value v, Value i) {
    const int d = checked_dim(v.type(), dim);
    const Positions positions = positions_along(d, from_start(i, v.type().dim(d)));
    require(value.is_number() || value.tensor().ndim() == 0, "the value must be a number or a scalar, got {}",
            [&] { return value.tensor().type().str(); });
    const Type type = Type::array(v.type().dtype(), element_dims(v.type(), positions));
    return scatter_at(v, positions, values_of(value, type), std::nullopt);
  });
}

// ---- masked_scatter -----------------------------------------------------------------------------------------------------

// A running sum of the mask numbers the elements to write.
Tensor masked_scatter(Operand x, Operand mask, Operand source) {
  return recorded("masked_scatter", x, mask, [&](Value v, Value m) {
    require(m.type().dtype() == DType::kPred, "the mask must be pred, got {}", m.type());
    const Value given = operand_value(source);
    require_same_elements("source", given.type(), v.type());
    const Dims dims = v.type().dims();
    const Value kept = broadcast_value(m, dims);
    if (v.type().element_count() == 0) return v;
    require(given.type().element_count() > 0, "the source {} has no elements", given.type());
    const std::int64_t count = v.type().element_count();
    const DType dtype = count <= std::numeric_limits<std::int32_t>::max() ? DType::kS32 : DType::kS64;
    const Value flat = ops::reshape(ops::convert(kept, dtype), {count});
    const Value number = ops::subtract(running_sum(flat, 0), constant_like(flat, 1));
    const Value elements = ops::reshape(given, {given.type().element_count()});
    const Value read = gather_along(elements, number, 0);
    return ops::select(kept, ops::reshape(read, dims), v);
  });
}

}  // namespace tessera
