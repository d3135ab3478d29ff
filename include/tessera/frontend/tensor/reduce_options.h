// SPDX-License-Identifier: Apache-2.0
// The dims that a reduction removes.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <vector>

namespace tessera {

/// The dims to reduce; negative dims count from the end. Empty: all dims.
struct ReduceOptions {
  std::vector<int> dims{};
  bool keep_dims = false;
};

template <class T>
concept DimNumber = std::integral<T> && !std::same_as<T, bool>;

/// The options for a dim or a list of dims: `x.sum(1)`, `x.sum({0, -1})`.
template <DimNumber T>
ReduceOptions over_dims(std::initializer_list<T> dims) {
  return {{dims.begin(), dims.end()}, false};
}

/// Options of var and std. The sum of squares is divided by count - correction.
struct VarOptions {
  std::vector<int> dims{};
  double correction = 1;
  bool keep_dims = false;
};

/// Options of norm. `p` is the order: 2, 1, any positive number, 0 (the number of elements that are not 0), or
/// +-infinity (the largest or smallest magnitude).
struct NormOptions {
  double p = 2;
  std::vector<int> dims{};
  bool keep_dims = false;
};

/// Options of argmax and argmin. Without a dim, the index counts all elements in row-major order.
struct ArgOptions {
  std::optional<int> dim{};
  bool keep_dims = false;
};

}  // namespace tessera
