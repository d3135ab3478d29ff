// SPDX-License-Identifier: Apache-2.0
// Helpers that gather, scatter and the dynamic slices share: window dims, index arithmetic, shifted indices of shards.
//
// gather reads windows of its operand, scatter writes them. Their attributes have different names but the same
// geometry:
//   operand [.. N ..]   indices [batch.., k]   result or updates [batch.., window..]
#pragma once

#include <string_view>

#include "row_support.h"
#include "tessera/ops/indexing.h"

namespace tessera::rows {

/// Integers of any width.
bool is_index(DType dtype);

struct Windows {
  Dims window_dims;       // of the result or updates: the dims within a window
  Dims dropped_dims;      // operand dims of window size 1 that the result omits
  Dims index_map;         // component k of an index vector is the start of operand dim index_map[k]
  Dims operand_batching;  // operand dim j of these corresponds to indices dim j of the next
  Dims indices_batching;
  std::int64_t index_vector_dim = 0;
  Dims sizes;  // of a window, one per operand dim

  // Derived by complete():
  Dims operand_dims;  // operand_dims[k] corresponds to window_dims[k]
  Dims index_dims;    // the indices dims except index_vector_dim …
  Dims batch_dims;    // … and the corresponding result dims

  void complete(int operand_ndim, int indices_ndim);
  /// The component of index vectors that is the start of operand dim `dim`; -1 if there is none and the start is 0.
  [[nodiscard]] int component_of(std::int64_t dim) const;
  /// The entry of batch_dims that corresponds to operand dim `dim`; -1 if it is not a batching dim.
  [[nodiscard]] int batch_of(std::int64_t dim) const;
};
Windows gather_windows(const OpView& view);
Windows scatter_windows(const OpView& view);

/// The gradient of scatter (scatter_gradient.cpp).
std::vector<Value> gradient_scatter(GradientContext& context);

/// The attribute names for messages.
struct WindowNames {
  std::string_view window, dropped, index_map, operand_batching, indices_batching;
};
void check_windows(const Windows& windows, const Type& operand, const Type& indices, const WindowNames& names);

/// The factors that both ops share, for one operand: entries for operand, indices and result (or updates).
struct WindowFactors {
  TensorFactors operand, indices, result;
};
enum class OneWideDims : std::uint8_t {
  kReduced,
  kKept
};  // gather reads a row of one shard; scatter writes it where it is
WindowFactors window_factors(FactorMap& map, const Windows& windows, const Type& operand, const Type& indices,
                             OneWideDims one_wide, FactorKind index_kind);

/// Calls f(start, batch offset in the result) for every index vector; start has one unclamped entry per operand dim.
template <class F>
void for_each_window(const Windows& windows, const Literal& indices, const Type& result, F&& f) {
  const Dims strides = row_major_strides(indices.type().dims());
  const Dims out_strides = row_major_strides(result.dims());
  Dims box;
  for (const auto dim : windows.index_dims) box.push_back(indices.type().dim(static_cast<int>(dim)));
  const bool explicit_vector = windows.index_vector_dim < indices.type().ndim();
  for_each_index(box, [&](const Dims& batch) {
    std::int64_t first = 0;
    std::int64_t out = 0;
    for (int i = 0; i < isize(batch); ++i) {
      first += at(batch, i) * at(strides, at(windows.index_dims, i));
      out += at(batch, i) * at(out_strides, at(windows.batch_dims, i));
    }
    Dims start(windows.sizes.size(), 0);
    for (int k = 0; k < isize(windows.index_map); ++k)
      at(start, at(windows.index_map, k)) =
          element_as_index(indices, first + (explicit_vector ? k * at(strides, windows.index_vector_dim) : 0));
    for (const auto dim : windows.operand_batching) at(start, dim) = at(batch, windows.batch_of(dim));
    f(start, out);
  });
}

// ---- emission ------------------------------------------------------------------------------------------------------

/// Converts narrow index types to s32, which can hold sizes.
Value widened_indices(Value indices);
/// A scalar constant of an integer type, exact.
Value index_constant(Builder& builder, DType dtype, std::int64_t value);
/// The position of each element in row-major order: one iota for each dim, so that each has the sharding of its dim.
Value row_major_index(Builder& builder, const Dims& dims, DType dtype);
/// One number per index component, along index_vector_dim of the indices.
Value along_components(Value indices, const Windows& windows, const std::vector<Value>& components);
/// True if every component of an index vector is: [indices] -> [result or updates].
Value spread_over_windows(Value mask, const Windows& windows, const Dims& result_dims);
/// low <= x <= high, elementwise.
Value within(Value x, Value low, Value high);
/// x, or zeros if the scalar is false. It slices x padded on both sides, which computes nothing.
Value or_zeros(Value here, Value x);

/// A scalar start index as s32, clamped such that a window of `size` is within [0, limit).
Value clamped_start(Value start, std::int64_t size, std::int64_t limit);

}  // namespace tessera::rows
