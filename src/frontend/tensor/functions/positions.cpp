// SPDX-License-Identifier: Apache-2.0
#include "tensor/functions/positions.h"

#include <algorithm>
#include <limits>

#include "tensor/number_types.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

// The integers as s32 or s64.
Value as_positions(Value ids) {
  const DType dtype = ids.type().dtype();
  if (dtype == DType::kS32 || dtype == DType::kS64) return ids;
  return ops::convert(ids, dtype_size(dtype) < 4 ? DType::kS32 : DType::kS64);
}

// [sizes..] for each component -> [sizes.., component].
Value joined(std::vector<Value> components) {
  Dims dims = components.front().type().dims();
  const int last = isize(dims);
  dims.push_back(1);
  for (Value& component : components) component = ops::reshape(component, dims);
  return components.size() == 1 ? components.front() : ops::concatenate(components, last);
}

// The dims of the elements that the array has, too.
Dims window_dims(const Type& array, const Positions& positions) {
  const auto count = isize(positions.sizes);
  Dims out;
  for (int d = 0; d < array.ndim() - isize(positions.dims) + count; ++d)
    if (d < positions.place || d >= positions.place + count) out.push_back(d);
  return out;
}

bool is_selected(const Positions& positions, std::int64_t dim) {
  return std::find(positions.dims.begin(), positions.dims.end(), dim) != positions.dims.end();
}

// The first dim of the elements that is one of those of the tensors.
int place_of(const std::vector<SelectedIds>& given) {
  std::optional<int> place;
  for (int i = 0; i < isize(given); ++i) {
    if (at(given, i).ids.tensor().ndim() == 0) continue;
    const int before = at(given, i).dim - i;  // the dims before it along which nothing is selected
    if (place && *place != before) return 0;
    place = before;
  }
  return place.value_or(0);
}

}  // namespace

Value index_vectors(Value index) { return joined({as_positions(index)}); }

Value from_start(Value ids, std::int64_t size) {
  require(is_integer(ids.type().dtype()), "positions must be integers, got {}", ids.type());
  const bool is_signed = is_signed_int(ids.type().dtype());
  ids = as_positions(ids);
  if (!is_signed) return ids;
  if (size > std::numeric_limits<std::int32_t>::max()) ids = narrowed(ids, DType::kS64);
  const Value is_negative = ops::compare(ids, constant_like(ids, 0), CompareDirection::kLt);
  const Value counted = ops::add(ids, constant_like(ids, static_cast<double>(size)));
  return ops::select(is_negative, counted, ids);
}

Positions positions_of(const Type& part, const std::vector<SelectedIds>& given) {
  const Type array = part;  // a copy, because types move as the builder grows
  Positions out;
  std::vector<Value> components;
  bool is_wide = false;
  for (const SelectedIds& one : given) {
    out.dims.push_back(one.dim);
    components.push_back(from_start(operand_value(one.ids), array.dim(one.dim)));
    out.sizes = broadcast_dims(out.sizes, components.back().type().dims());
    is_wide = is_wide || components.back().type().dtype() == DType::kS64;
  }
  for (Value& component : components)
    component = broadcast_value(narrowed(component, is_wide ? DType::kS64 : DType::kS32), out.sizes);
  out.indices = joined(std::move(components));
  out.place = place_of(given);
  return out;
}

Positions positions_along(int dim, Value index) {
  require(is_integer(index.type().dtype()) && index.type().ndim() == 1,
          "the index must be a vector of integers, got {}", index.type());
  return {{dim}, index.type().dims(), index_vectors(index), dim};
}

Positions positions_in_order(const Type& array, Value index) {
  const Type type = array;  // a copy, because types move as the builder grows
  Positions out;
  out.sizes = index.type().dims();
  Value rest = from_start(index, type.element_count());
  const auto number = [&](std::int64_t value) {
    return ops::scalar(*rest.builder, rest.type().dtype(), static_cast<double>(value));
  };
  const Value first = number(0);
  rest = ops::clamp(first, rest, number(type.element_count() - 1));
  std::vector<Value> components(type.dims().size());
  for (int d = type.ndim() - 1; d >= 0; --d) {
    const Value size = constant_like(rest, static_cast<double>(type.dim(d)));
    at(components, d) = d == 0 ? rest : ops::remainder(rest, size);
    if (d > 0) rest = ops::divide(rest, size);
  }
  for (int d = 0; d < type.ndim(); ++d) out.dims.push_back(d);
  out.indices = joined(std::move(components));
  return out;
}

Dims element_dims(const Type& array, const Positions& positions) {
  Dims out;
  for (int d = 0; d < array.ndim(); ++d)
    if (!is_selected(positions, d)) out.push_back(array.dim(d));
  out.insert(out.begin() + positions.place, positions.sizes.begin(), positions.sizes.end());
  return out;
}

Value gather_at(Value array, const Positions& positions) {
  const Type type = array.type();
  const Type result = Type::array(type.dtype(), element_dims(type, positions));
  if (result.element_count() == 0) return trace().full(result, 0);
  GatherAttributes attributes;
  attributes.offset_dims = window_dims(type, positions);
  attributes.collapsed_slice_dims = positions.dims;
  attributes.start_index_map = positions.dims;
  attributes.index_vector_dim = isize(positions.sizes);
  attributes.slice_sizes = type.dims();
  for (const auto d : positions.dims) {
    require(type.dim(static_cast<int>(d)) > 0, "dim {} of {} has no elements", d, type);
    at(attributes.slice_sizes, d) = 1;
  }
  return ops::gather(array, positions.indices, std::move(attributes));
}

Value scatter_at(Value array, const Positions& positions, Value values, std::optional<Reduction> reduction) {
  const Type type = array.type();
  if (type.element_count() == 0 || values.type().element_count() == 0) return array;
  ScatterAttributes attributes;
  attributes.update_window_dims = window_dims(type, positions);
  attributes.inserted_window_dims = positions.dims;
  attributes.scatter_dims_to_operand_dims = positions.dims;
  attributes.index_vector_dim = isize(positions.sizes);
  return ops::scatter({array}, positions.indices, {values}, std::move(attributes),
                      combiner_of(*array.builder, reduction, type.dtype()));
}

void require_same_elements(std::string_view role, const Type& values, const Type& x) {
  require(values.dtype() == x.dtype(), "the {} is {}, but the tensor is {}; convert one with .to()", role, values, x);
}

Value values_of(const Operand& given, const Type& type) {
  if (!given.is_number()) {
    const Value values = operand_value(given);
    require_same_elements("value", values.type(), type);
    return broadcast_value(values, type.dims());
  }
  if (type.dtype() == DType::kPred && given.number() != 0 && given.number() != 1)
    fail_pred_with_number(given.number(), type);
  check_number(given.number(), type);
  return trace().full(type, given.number());
}

ComputationId combiner_of(Builder& builder, std::optional<Reduction> reduction, DType dtype) {
  if (!reduction) return ops::overwrite_computation(builder.program(), dtype);
  return ops::reduction_computation(builder.program(), *reduction, dtype);
}

}  // namespace tessera
