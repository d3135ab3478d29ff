// SPDX-License-Identifier: Apache-2.0
// The type of a value: an array `f32[128,64]`, a tuple of types, or `token[]`. A Type is a small immutable handle.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/tensor/dtype.h"

namespace tessera {

using Dims = boost::container::small_vector<std::int64_t, 4>;

/// A type. Copies share their content.
class Type {
 public:
  static constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
  /// The empty tuple `()`.
  Type();
  /// `layout` is minor-to-major; empty means row-major. Error if a size is negative, or if the array needs more than
  /// kMostBytes. In this check a size of 0 counts as 1, because strides must fit into 64 bits even if the array is
  /// empty.
  static Type array(DType dtype, Dims dims, Dims layout = {});
  static Type scalar(DType dtype) { return array(dtype, {}); }
  /// Error if the arrays in the tuple together need more than 4 times kMostBytes.
  static Type tuple(std::vector<Type> elements);
  static Type token();

  [[nodiscard]] bool is_array() const;
  [[nodiscard]] bool is_tuple() const;
  [[nodiscard]] bool is_token() const;

  /// Requires an array (InternalError otherwise).
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] const Dims& dims() const;
  [[nodiscard]] std::int64_t dim(int i) const;
  [[nodiscard]] int ndim() const;
  [[nodiscard]] const Dims& layout() const;
  /// The number of elements; 0 for a tuple.
  [[nodiscard]] std::int64_t element_count() const;

  /// Requires a tuple (InternalError otherwise).
  [[nodiscard]] const std::vector<Type>& elements() const;

  /// Bytes of all arrays in the type.
  [[nodiscard]] std::int64_t byte_size() const;
  /// The arrays and tokens in the type, in pre-order. An array has one leaf: itself.
  [[nodiscard]] std::vector<Type> leaves() const;
  [[nodiscard]] int leaf_count() const;
  /// The number of leaves before those of this element of a tuple.
  [[nodiscard]] int leaf_offset(std::int64_t element) const;
  /// The index of the leaf at `path` (the element, its element, …). Error if there is no leaf.
  [[nodiscard]] int leaf_index(const Dims& path) const;

  /// Returns the array with other sizes or another element type. Drops the layout if ndim changes.
  [[nodiscard]] Type with_dims(Dims dims) const;
  [[nodiscard]] Type with_dtype(DType dtype) const;

  /// `f32[128,64]`, `(f32[], s32[2])`; with_layout adds `{1,0}` as XLA prints it.
  [[nodiscard]] std::string str(bool with_layout = false) const;
  [[nodiscard]] std::size_t hash() const;
  /// Ignores layouts, because they do not change the values of a type.
  friend bool operator==(const Type& a, const Type& b);

 private:
  struct Node;
  explicit Type(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

/// Row-major strides in elements: {3,4,5} -> {20,5,1}.
Dims row_major_strides(const Dims& dims);

/// Calls f(index) for every index of the box `dims` in row-major order; once with {} for no dims.
template <class F>
void for_each_index(const Dims& dims, F&& f) {
  for (const auto size : dims)
    if (size == 0) return;
  Dims index(dims.size(), 0);
  while (true) {
    f(static_cast<const Dims&>(index));
    std::size_t d = dims.size();
    while (d > 0 && ++index[d - 1] == dims[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace tessera
