// SPDX-License-Identifier: Apache-2.0
// Options of reductions, such as the dims that a reduction removes, and of functions along one dim.
#pragma once

#include <concepts>
#include <cstdint>
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

/// Options of norm. `p` is the order: 2, 1, any other number, 0 (the number of elements that are not 0), or +-infinity
/// (the largest or smallest magnitude).
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

/// The reductions of scatter_reduce, with PyTorch's names.
enum class ScatterReduction : std::uint8_t { kSum, kProd, kMean, kAmax, kAmin };

/// Options of scatter_reduce: whether the elements of x count.
struct ScatterReduceOptions {
  bool include_self = true;
};

/// Options of index_put: whether values are added instead of replacing elements.
struct IndexPutOptions {
  bool accumulate = false;
};

/// Options of sort and argsort.
struct SortOptions {
  int dim = -1;
  bool descending = false;
};

/// Options of topk.
struct TopKOptions {
  int dim = -1;
  bool largest = true;
};

/// Options of median along a dim.
struct MedianOptions {
  int dim = -1;
  bool keep_dims = false;
};

/// How quantile chooses a number between two elements: the interpolated one, an element, or the mean of both.
enum class QuantileMethod : std::uint8_t { kLinear, kLower, kHigher, kMidpoint, kNearest };

/// Options of quantile. Without a dim, all elements count.
struct QuantileOptions {
  std::optional<int> dim{};
  bool keep_dims = false;
  QuantileMethod method = QuantileMethod::kLinear;
};

}  // namespace tessera
