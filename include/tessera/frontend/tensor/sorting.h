// SPDX-License-Identifier: Apache-2.0
// Order along a dim. Numbers are in the order -infinity, …, -0, 0, …, infinity, NaN; all NaNs are equal. Gradients go
// to the elements that were selected, except to NaNs.
#pragma once

#include <vector>

#include "tessera/frontend/tensor/reduce_options.h"
#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// Elements of a tensor, and their positions along the dim as s32.
struct SortResult {
  Tensor values;
  Tensor indices;
};

/// Sorts the elements along a dim. Stable: equal elements keep their order, also if descending.
SortResult sort(Operand x, SortOptions options = {});
/// The positions of the sorted elements, s32. Stable.
Tensor argsort(Operand x, SortOptions options = {});

/// The k largest (or smallest) elements along a dim, in order; of equal elements, the first come first.
SortResult topk(Operand x, std::int64_t k, TopKOptions options = {});

/// The largest of the elements 0..i along a dim, and its position; the last one of equal elements, as in PyTorch. NaN
/// counts as largest.
SortResult cummax(Operand x, int dim);
/// The smallest element. NaN counts as smallest.
SortResult cummin(Operand x, int dim);

/// The median of all elements: element (n - 1) / 2 in ascending order, and thus the lower one of two. Equal elements
/// share the gradient equally. NaN if an element is NaN. Error if there are no elements.
Tensor median(Operand x);
/// The median along a dim. The gradient goes to the element at the position.
SortResult median(Operand x, MedianOptions options);
template <DimNumber T>
SortResult median(Operand x, T dim) {
  return median(x, MedianOptions{.dim = static_cast<int>(dim)});
}
/// The number below which the fraction q of the elements is: the element at q * (n - 1) in ascending order,
/// interpolated between its neighbours. NaN if an element is NaN. Errors: q is not in [0, 1]; there are no elements.
Tensor quantile(Operand x, double q, QuantileOptions options = {});
/// The quantiles for several fractions, along a new dim 0.
Tensor quantile(Operand x, const std::vector<double>& q, QuantileOptions options = {});

/// The side of equal elements at which a value could be inserted.
struct SearchOptions {
  bool right = false;
};
/// The positions along the last dim of `sorted` at which the values could be inserted without changing its order, as
/// s32: the first such position, or the last one (right). `sorted` is a vector, or has the sizes of `values` except in
/// the last dim. NaN comes last.
Tensor searchsorted(Operand sorted, Operand values, SearchOptions options = {});
/// The same with the order of arguments of PyTorch. `boundaries` is a vector.
Tensor bucketize(Operand values, Operand boundaries, SearchOptions options = {});

}  // namespace tessera
