// SPDX-License-Identifier: Apache-2.0
// The sizes of a tensor, as users write and read them: `zeros({2, 3})`, `x.shape()`.
#pragma once

#include <initializer_list>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tessera/tensor/type.h"

namespace tessera {

/// The size of each dim. Converts from and to Dims, so every function that takes one accepts the other.
class Shape {
 public:
  /// The shape of a scalar.
  Shape() = default;
  // NOLINTBEGIN(google-explicit-constructor): a shape is a list of sizes
  Shape(std::initializer_list<std::int64_t> sizes) : dims_(sizes.begin(), sizes.end()) {}
  Shape(Dims dims) : dims_(std::move(dims)) {}
  operator const Dims&() const { return dims_; }
  // NOLINTEND(google-explicit-constructor)
  explicit Shape(const std::vector<std::int64_t>& sizes) : dims_(sizes.begin(), sizes.end()) {}

  [[nodiscard]] const Dims& dims() const { return dims_; }
  [[nodiscard]] int ndim() const { return static_cast<int>(dims_.size()); }
  /// The size of a dim; negative numbers count from the end. Error if the shape does not have the dim.
  [[nodiscard]] std::int64_t operator[](int dim) const;
  /// The number of elements: 1 for a scalar. Error if it needs more than 63 bits.
  [[nodiscard]] std::int64_t numel() const;
  [[nodiscard]] auto begin() const { return dims_.begin(); }
  [[nodiscard]] auto end() const { return dims_.end(); }
  /// `[2, 3]`.
  [[nodiscard]] std::string str() const;
  friend bool operator==(const Shape& a, const Shape& b) { return a.dims_ == b.dims_; }
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.str(); }

 private:
  Dims dims_;
};

}  // namespace tessera
