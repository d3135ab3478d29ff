// SPDX-License-Identifier: Apache-2.0
#include "view.h"

#include <algorithm>

#include "tessera/ops/structural.h"

namespace tessera::schedule {

View row_major_view(const Dims& dims) { return {dims, row_major_strides(dims), 0}; }

bool is_row_major(const View& view) {
  if (view.offset != 0) return false;
  const Dims plain = row_major_strides(view.dims);
  for (std::size_t d = 0; d < plain.size(); ++d)
    if (view.dims[d] > 1 && view.strides[d] != plain[d]) return false;
  return true;
}

bool repeats(const View& view) {
  for (std::size_t d = 0; d < view.dims.size(); ++d)
    if (view.dims[d] > 1 && view.strides[d] == 0) return true;
  return false;
}

bool runs_backwards(const View& view) {
  for (std::size_t d = 0; d < view.dims.size(); ++d)
    if (view.dims[d] > 1 && view.strides[d] < 0) return true;
  return false;
}

std::optional<std::int64_t> repeated_columns(const View& view) {
  std::int64_t columns = 1;
  std::size_t d = view.dims.size();
  for (; d-- > 0 && (view.strides[d] == 0 || view.dims[d] == 1);) columns *= view.dims[d];
  std::int64_t stride = 1;
  for (++d; d-- > 0;) {
    if (view.dims[d] == 1) continue;
    if (view.strides[d] != stride) return std::nullopt;
    stride *= view.dims[d];
  }
  return view.offset == 0 && columns > 1 ? std::optional(columns) : std::nullopt;
}

std::optional<View> reshape_view(const View& view, const Dims& dims) {
  View out{dims, Dims(dims.size(), 0), view.offset};
  if (product(dims) == 0) return out;
  Dims old_dims;  // without dims of size 1
  Dims old_strides;
  for (std::size_t d = 0; d < view.dims.size(); ++d)
    if (view.dims[d] != 1) {
      old_dims.push_back(view.dims[d]);
      old_strides.push_back(view.strides[d]);
    }
  std::size_t o = 0;  // old dims [o, o_end) hold the elements of new dims [n, n_end)
  std::size_t n = 0;
  while (n < dims.size() && o < old_dims.size()) {
    std::size_t o_end = o + 1;
    std::size_t n_end = n + 1;
    std::int64_t old_count = old_dims[o];
    std::int64_t new_count = dims[n];
    while (old_count != new_count) {
      if (new_count < old_count)
        new_count *= dims[n_end++];
      else
        old_count *= old_dims[o_end++];
    }
    for (std::size_t d = o; d + 1 < o_end; ++d)
      if (old_strides[d] != old_dims[d + 1] * old_strides[d + 1]) return std::nullopt;
    std::int64_t stride = old_strides[o_end - 1];
    for (std::size_t d = n_end; d-- > n;) {
      out.strides[d] = stride;
      stride *= dims[d];
    }
    o = o_end;
    n = n_end;
  }
  return out;
}

}  // namespace tessera::schedule

namespace tessera {

View view_through(const OpView& op, const View& operand) {
  View out{op.result.dims(), Dims(op.result.dims().size(), 0), operand.offset};
  switch (op.op.movement) {
    case Movement::kBroadcast: {
      const Dims& dimensions = op.as<DimensionsAttributes>().dimensions;
      for (std::size_t i = 0; i < dimensions.size(); ++i)
        if (operand.dims[i] != 1 || out.dims[static_cast<std::size_t>(dimensions[i])] == 1)
          at(out.strides, dimensions[i]) = operand.strides[i];
      return out;
    }
    case Movement::kTranspose: {
      const Dims& permutation = op.as<DimensionsAttributes>().dimensions;
      for (std::size_t i = 0; i < permutation.size(); ++i) out.strides[i] = at(operand.strides, permutation[i]);
      return out;
    }
    case Movement::kSlice: {
      const auto& ranges = op.as<SliceAttributes>().slice;
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        out.strides[i] = operand.strides[i] * ranges[i].stride;
        out.offset += operand.strides[i] * ranges[i].start;
      }
      return out;
    }
    case Movement::kReverse:
      out.strides = operand.strides;
      for (const auto d : op.as<DimensionsAttributes>().dimensions) {
        if (at(operand.dims, d) == 0) continue;
        out.offset += at(operand.strides, d) * (at(operand.dims, d) - 1);
        at(out.strides, d) = -at(operand.strides, d);
      }
      return out;
    default: throw InternalError(fmt::format("{} is not a view", op.op.name));
  }
}

}  // namespace tessera
