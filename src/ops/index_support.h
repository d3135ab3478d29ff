// SPDX-License-Identifier: Apache-2.0
// What gather, scatter and the dynamic slices share: the reading of window dims, index arithmetic, shifted indices of
// shards.
//
// gather reads windows of its operand, scatter writes them; the dims have other attribute names but the same geometry:
//   operand [.. N ..]   indices [batch.., k]   result or updates [batch.., window..]
#pragma once

#include <string_view>

#include "row_support.h"
#include "tessera/ops/indexing.h"

namespace tessera::rows {

/// Integers of any width.
bool is_index(DType dtype);

struct Windows {
  Dims window_dims;       // of the result or updates: the dims that run within a window
  Dims dropped_dims;      // operand dims of window size 1 that the result leaves out
  Dims index_map;         // component k of an index vector starts operand dim index_map[k]
  Dims operand_batching;  // operand dim j of these goes along with indices dim j of the next
  Dims indices_batching;
  std::int64_t index_vector_dim = 0;
  Dims sizes;  // of a window, one per operand dim

  // Derived by complete():
  Dims operand_dims;  // operand_dims[k] runs along window_dims[k]
  Dims index_dims;    // the indices dims but for index_vector_dim …
  Dims batch_dims;    // … and the result dims they become

  void complete(int operand_ndim, int indices_ndim);
  /// Which component of the index vectors starts operand dim `dim`; -1: none, it starts at 0.
  [[nodiscard]] int component_of(std::int64_t dim) const;
  /// The entry of batch_dims that operand dim `dim` goes along with; -1: not a batching dim.
  [[nodiscard]] int batch_of(std::int64_t dim) const;
};
Windows gather_windows(const OpView& view);
Windows scatter_windows(const OpView& view);

/// The attribute names for messages.
struct WindowNames {
  std::string_view window, dropped, index_map, operand_batching, indices_batching;
};
void check_windows(const Windows& windows, const Type& operand, const Type& indices, const WindowNames& names);

/// The factors that both ops have in common, for one operand: entries for operand, indices and result (or updates).
struct WindowFactors {
  TensorFactors operand, indices, result;
};
enum class OneWideDims : std::uint8_t {
  kReduced,
  kKept
};  // gather reads one shard's row; scatter writes it where it is
WindowFactors window_factors(FactorMap& map, const Windows& windows, const Type& operand, const Type& indices,
                             OneWideDims one_wide, FactorKind index_kind);

/// Calls f(start, batch offset in the result) for every index vector; start has one entry per operand dim, not clamped.
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

/// Narrow index types become s32, so that sizes fit.
Value widened(Value indices);
/// A scalar constant of an integer type, exact.
Value index_constant(Builder& builder, DType dtype, std::int64_t value);
/// One number per index component, laid along index_vector_dim of the indices' dims.
Value along_components(Value indices, const Windows& windows, const std::vector<Value>& components);
/// True where every component of an index vector is: [indices] -> [result or updates].
Value spread_over_windows(Value mask, const Windows& windows, const Dims& result_dims);
/// low <= x <= high, elementwise.
Value within(Value x, Value low, Value high);
/// x, or zeros where the scalar is false: read from before or from behind x's end, which computes nothing.
Value or_zeros(Value here, Value x);

/// A scalar start index, clamped so that a window of `size` lies in [0, limit): an s32.
Value clamped_start(Value start, std::int64_t size, std::int64_t limit);

}  // namespace tessera::rows
