// SPDX-License-Identifier: Apache-2.0
#include "index_support.h"

#include <algorithm>

#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/tensor/narrow_dtype.h"

namespace tessera::rows {

bool is_index(DType dtype) { return is_integer(dtype) || is_narrow_integer(dtype); }

// ---- windows -------------------------------------------------------------------------------------------------------

void Windows::complete(int operand_ndim, int indices_ndim) {
  for (std::int64_t d = 0; d < operand_ndim; ++d)
    if (!contains(dropped_dims, d) && !contains(operand_batching, d)) operand_dims.push_back(d);
  for (std::int64_t d = 0; d < indices_ndim; ++d)
    if (d != index_vector_dim) index_dims.push_back(d);
  for (std::int64_t d = 0; batch_dims.size() < index_dims.size(); ++d)
    if (!contains(window_dims, d)) batch_dims.push_back(d);
}

int Windows::component_of(std::int64_t dim) const {
  const auto found = std::find(index_map.begin(), index_map.end(), dim);
  return found == index_map.end() ? -1 : static_cast<int>(found - index_map.begin());
}

int Windows::batch_of(std::int64_t dim) const {
  const auto found = std::find(operand_batching.begin(), operand_batching.end(), dim);
  if (found == operand_batching.end()) return -1;
  const std::int64_t along = at(indices_batching, found - operand_batching.begin());
  return static_cast<int>(std::find(index_dims.begin(), index_dims.end(), along) - index_dims.begin());
}

namespace {

void check_sorted(const Dims& dims, std::string_view what) {
  require(std::is_sorted(dims.begin(), dims.end()), "{} must be sorted, got {}", what,
          [&] { return field_text(dims); });
}

void check_index_vector(const Windows& w, const Type& indices, const WindowNames& names) {
  require(is_index(indices.dtype()), "indices must be integers, got {}", indices);
  require(w.index_vector_dim >= 0 && w.index_vector_dim <= indices.ndim(), "index_vector_dim {} is out of range for {}",
          w.index_vector_dim, indices);
  const std::int64_t components =
      w.index_vector_dim == indices.ndim() ? 1 : indices.dim(static_cast<int>(w.index_vector_dim));
  require(components == isize(w.index_map), "an index vector has {} components, but {} names {} dims", components,
          names.index_map, w.index_map.size());
}

void check_batching(const Windows& w, const Type& operand, const Type& indices, const WindowNames& names) {
  check_distinct_dims(w.operand_batching, operand.ndim(), names.operand_batching);
  check_distinct_dims(w.indices_batching, indices.ndim(), names.indices_batching);
  check_sorted(w.operand_batching, names.operand_batching);
  require(w.operand_batching.size() == w.indices_batching.size(), "{} names {} dims, {} names {}",
          names.operand_batching, w.operand_batching.size(), names.indices_batching, w.indices_batching.size());
  for (std::size_t j = 0; j < w.operand_batching.size(); ++j) {
    const auto a = w.operand_batching[j];
    const auto b = w.indices_batching[j];
    require(b != w.index_vector_dim, "{} may not name index_vector_dim {}", names.indices_batching, b);
    require(operand.dim(static_cast<int>(a)) == indices.dim(static_cast<int>(b)),
            "batching sizes differ: operand dim {} is {}, indices dim {} is {}", a, operand.dim(static_cast<int>(a)), b,
            indices.dim(static_cast<int>(b)));
    require(!contains(w.dropped_dims, a) && !contains(w.index_map, a), "dim {} is in {} and in {}", a,
            names.operand_batching, contains(w.index_map, a) ? names.index_map : names.dropped);
  }
}

}  // namespace

void check_windows(const Windows& w, const Type& operand, const Type& indices, const WindowNames& names) {
  const auto dropped = w.dropped_dims.size() + w.operand_batching.size();
  require(w.window_dims.size() + dropped == operand.dims().size(),
          "{} must name {} dims (those of {} outside {} and {}), got {}", names.window,
          operand.dims().size() - std::min(dropped, operand.dims().size()), operand, names.dropped,
          names.operand_batching, [&] { return field_text(w.window_dims); });
  check_index_vector(w, indices, names);
  const int batch = indices.ndim() - (w.index_vector_dim < indices.ndim() ? 1 : 0);
  check_distinct_dims(w.window_dims, batch + isize(w.window_dims), names.window);
  check_sorted(w.window_dims, names.window);
  check_distinct_dims(w.dropped_dims, operand.ndim(), names.dropped);
  check_sorted(w.dropped_dims, names.dropped);
  check_distinct_dims(w.index_map, operand.ndim(), names.index_map);
  check_batching(w, operand, indices, names);
}

WindowFactors window_factors(FactorMap& map, const Windows& w, const Type& operand, const Type& indices,
                             OneWideDims one_wide, FactorKind index_kind) {
  WindowFactors out{TensorFactors(operand.dims().size()), TensorFactors(indices.dims().size()),
                    TensorFactors(w.window_dims.size() + w.index_dims.size())};
  const FactorKind moved = one_wide == OneWideDims::kReduced ? FactorKind::kReduce : FactorKind::kPass;
  const auto add_window_dim = [&](std::int64_t d, DimFactors* result) {
    const std::int64_t size = operand.dim(static_cast<int>(d));
    if (size <= 1) return;
    const bool covers_dim = at(w.sizes, d) == size;
    const bool one_wide_dim = at(w.sizes, d) == 1 && w.component_of(d) >= 0;
    const FactorKind kind = covers_dim ? FactorKind::kPass : one_wide_dim ? moved : FactorKind::kBlocked;
    at(out.operand, d) = {map.add(size, kind)};
    if (result == nullptr || at(w.sizes, d) <= 1) return;
    *result = covers_dim ? at(out.operand, d) : DimFactors{map.add(at(w.sizes, d), FactorKind::kBlocked)};
  };
  for (std::size_t k = 0; k < w.operand_dims.size(); ++k)
    add_window_dim(w.operand_dims[k], &at(out.result, w.window_dims[k]));
  for (const auto d : w.dropped_dims) add_window_dim(d, nullptr);
  for (std::size_t i = 0; i < w.index_dims.size(); ++i) {
    const std::int64_t size = indices.dim(static_cast<int>(w.index_dims[i]));
    if (size <= 1) continue;
    const bool batching = contains(w.indices_batching, w.index_dims[i]);
    at(out.indices, w.index_dims[i]) = {map.add(size, batching ? FactorKind::kPass : index_kind)};
    at(out.result, w.batch_dims[i]) = at(out.indices, w.index_dims[i]);
  }
  for (const auto d : w.operand_batching)
    if (const int batch = w.batch_of(d); operand.dim(static_cast<int>(d)) > 1)
      at(out.operand, d) = at(out.indices, at(w.index_dims, batch));
  if (w.index_vector_dim < indices.ndim() && w.index_map.size() > 1)
    at(out.indices, w.index_vector_dim) = {map.add(isize(w.index_map), FactorKind::kBlocked)};
  return out;
}

// ---- emission ------------------------------------------------------------------------------------------------------

Value widened_indices(Value indices) {
  return dtype_size(indices.type().dtype()) < 4 ? ops::convert(indices, DType::kS32) : indices;
}

Value index_constant(Builder& builder, DType dtype, std::int64_t value) {
  return ops::constant(builder, visit_dtype(dtype, [&]<class T>() {
                         if constexpr (is_integer(kDTypeOf<T>))
                           return Literal::scalar<T>(static_cast<T>(value));
                         else
                           return scalar_of(dtype, static_cast<double>(value));
                       }));
}

Value row_major_index(Builder& builder, const Dims& dims, DType dtype) {
  const Dims strides = row_major_strides(dims);
  Value index{};
  for (int d = 0; d < isize(dims); ++d) {
    if (at(dims, d) == 1) continue;
    const Dims line = {at(dims, d)};
    Value part = ops::iota(builder, Type::array(dtype, line), 0);
    if (at(strides, d) != 1)
      part = ops::multiply(part, ops::splat(index_constant(builder, dtype, at(strides, d)), line));
    part = ops::broadcast(part, dims, {d});
    index = index.is_null() ? part : ops::add(index, part);
  }
  return index.is_null() ? ops::full(builder, Type::array(dtype, dims), 0) : index;
}

Value along_components(Value indices, const Windows& w, const std::vector<Value>& components) {
  const Dims& dims = indices.type().dims();
  if (components.size() == 1) return ops::splat(components.front(), dims);
  std::vector<Value> parts;
  for (const Value& component : components) parts.push_back(ops::reshape(component, {1}));
  return ops::broadcast(ops::concatenate(parts, 0), dims, {w.index_vector_dim});
}

Value spread_over_windows(Value mask, const Windows& w, const Dims& result_dims) {
  if (w.index_vector_dim < mask.type().ndim()) {
    if (w.index_map.size() == 1) {
      Dims dims = mask.type().dims();
      dims.erase(dims.begin() + w.index_vector_dim);
      mask = ops::reshape(mask, dims);
    } else {
      mask = ops::reduce(mask, Reduction::kAnd, {w.index_vector_dim});
    }
  }
  return ops::broadcast(mask, result_dims, w.batch_dims);
}

Value within(Value x, Value low, Value high) {
  return ops::logical_and(ops::compare(x, low, CompareDirection::kGe), ops::compare(x, high, CompareDirection::kLe));
}

Value or_zeros(Value here, Value x) {
  Builder& builder = *x.builder;
  const Dims dims = x.type().dims();
  if (dims.empty() || dims[0] == 0) return ops::select(here, x, full_like(x, 0));
  std::vector<PaddingDim> padding(dims.size());
  padding[0].high = dims[0];
  const Value both = ops::pad(x, ops::constant(builder, scalar_of(x.type().dtype(), 0)), padding);
  std::vector<Value> starts(dims.size(), index_constant(builder, DType::kS32, 0));
  starts[0] = ops::select(here, starts[0], index_constant(builder, DType::kS32, dims[0]));
  return ops::dynamic_slice(both, starts, dims);
}

Value clamped_start(Value start, std::int64_t size, std::int64_t limit) {
  Builder& builder = *start.builder;
  const Value wide = widened_indices(start);
  const DType dtype = wide.type().dtype();
  const Value clamped =
      ops::clamp(index_constant(builder, dtype, 0), wide, index_constant(builder, dtype, limit - size));
  return dtype == DType::kS32 ? clamped : ops::convert(clamped, DType::kS32);
}

}  // namespace tessera::rows
