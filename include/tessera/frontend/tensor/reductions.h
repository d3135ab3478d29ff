// SPDX-License-Identifier: Apache-2.0
// Reductions and cumulative functions. Without dims a reduction is over all dims. A scalar has the dims 0 and -1, as in
// PyTorch.
//
//   sum(x)    sum(x, 1)    sum(x, {0, -1})    sum(x, {.dims = {1}, .keep_dims = true})    x.sum(1)
#pragma once

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// The sum; for pred the number of true elements, as s32.
Tensor sum(Operand x, ReduceOptions options = {});
/// The mean. It is also correct if the sum exceeds the range of an f16 or bf16, but the mean does not.
Tensor mean(Operand x, ReduceOptions options = {});
/// The largest element. Equal largest elements share the gradient equally, as in torch.amax. NaN if an element is NaN.
/// Error if a dim has no elements.
Tensor max(Operand x, ReduceOptions options = {});
/// The smallest element, with the same gradient and error.
Tensor min(Operand x, ReduceOptions options = {});
/// The same as max and min, with PyTorch's names.
Tensor amax(Operand x, ReduceOptions options = {});
Tensor amin(Operand x, ReduceOptions options = {});
/// The product; for pred 1 or 0, as s32. Derivatives of every order are exact also where elements are 0.
Tensor prod(Operand x, ReduceOptions options = {});
/// True if an element is true, or not 0. No elements: false.
Tensor any(Operand x, ReduceOptions options = {});
/// True if all elements are true, or not 0. No elements: true.
Tensor all(Operand x, ReduceOptions options = {});
/// The number of elements that are true, or not 0, as s32.
Tensor count_nonzero(Operand x, ReduceOptions options = {});
/// The sum of the elements that are not NaN. NaN elements have the gradient 0.
Tensor nansum(Operand x, ReduceOptions options = {});
/// The mean of the elements that are not NaN; NaN if there are none.
Tensor nanmean(Operand x, ReduceOptions options = {});
template <DimNumber T>
Tensor sum(Operand x, T dim) {
  return sum(x, over_dims({dim}));
}
template <DimNumber T>
Tensor sum(Operand x, std::initializer_list<T> dims) {
  return sum(x, over_dims(dims));
}
template <DimNumber T>
Tensor mean(Operand x, T dim) {
  return mean(x, over_dims({dim}));
}
template <DimNumber T>
Tensor mean(Operand x, std::initializer_list<T> dims) {
  return mean(x, over_dims(dims));
}
template <DimNumber T>
Tensor max(Operand x, T dim) {
  return max(x, over_dims({dim}));
}
template <DimNumber T>
Tensor max(Operand x, std::initializer_list<T> dims) {
  return max(x, over_dims(dims));
}
template <DimNumber T>
Tensor min(Operand x, T dim) {
  return min(x, over_dims({dim}));
}
template <DimNumber T>
Tensor min(Operand x, std::initializer_list<T> dims) {
  return min(x, over_dims(dims));
}
template <DimNumber T>
Tensor prod(Operand x, T dim) {
  return prod(x, over_dims({dim}));
}
template <DimNumber T>
Tensor prod(Operand x, std::initializer_list<T> dims) {
  return prod(x, over_dims(dims));
}
template <DimNumber T>
Tensor any(Operand x, T dim) {
  return any(x, over_dims({dim}));
}
template <DimNumber T>
Tensor any(Operand x, std::initializer_list<T> dims) {
  return any(x, over_dims(dims));
}
template <DimNumber T>
Tensor all(Operand x, T dim) {
  return all(x, over_dims({dim}));
}
template <DimNumber T>
Tensor all(Operand x, std::initializer_list<T> dims) {
  return all(x, over_dims(dims));
}
template <DimNumber T>
Tensor amax(Operand x, T dim) {
  return amax(x, over_dims({dim}));
}
template <DimNumber T>
Tensor amax(Operand x, std::initializer_list<T> dims) {
  return amax(x, over_dims(dims));
}
template <DimNumber T>
Tensor amin(Operand x, T dim) {
  return amin(x, over_dims({dim}));
}
template <DimNumber T>
Tensor amin(Operand x, std::initializer_list<T> dims) {
  return amin(x, over_dims(dims));
}
template <DimNumber T>
Tensor count_nonzero(Operand x, T dim) {
  return count_nonzero(x, over_dims({dim}));
}
template <DimNumber T>
Tensor count_nonzero(Operand x, std::initializer_list<T> dims) {
  return count_nonzero(x, over_dims(dims));
}
template <DimNumber T>
Tensor nansum(Operand x, T dim) {
  return nansum(x, over_dims({dim}));
}
template <DimNumber T>
Tensor nansum(Operand x, std::initializer_list<T> dims) {
  return nansum(x, over_dims(dims));
}
template <DimNumber T>
Tensor nanmean(Operand x, T dim) {
  return nanmean(x, over_dims({dim}));
}
template <DimNumber T>
Tensor nanmean(Operand x, std::initializer_list<T> dims) {
  return nanmean(x, over_dims(dims));
}

/// The variance; unbiased (correction 1) by default. Computed in f32 at least. NaN unless the number of elements is
/// greater than the correction.
Tensor var(Operand x, VarOptions options = {});
/// The square root of var(). Its gradient is not finite where the variance is 0.
Tensor std(Operand x, VarOptions options = {});
template <DimNumber T>
Tensor var(Operand x, T dim) {
  return var(x, VarOptions{.dims = {static_cast<int>(dim)}});
}
template <DimNumber T>
Tensor std(Operand x, T dim) {
  return tessera::std(x, VarOptions{.dims = {static_cast<int>(dim)}});
}
/// (sum |x|^p)^(1/p). Computed in f32 at least. The gradient at a vector of zeros is 0, as in PyTorch. With negative p,
/// the norm and the gradient are 0 if an element is 0. With negative or infinite p: error if a dim has no elements.
Tensor norm(Operand x, NormOptions options = {});
/// The covariances of the rows of x [variables, observations]: [variables, variables]. A vector is one variable, and
/// gives a scalar. The sums of products are divided by observations - correction. Computed in f32 at least.
Tensor cov(Operand x, double correction = 1);

/// Options of normalize.
struct NormalizeOptions {
  double p = 2;
  int dim = 1;
  double epsilon = 1e-12;
};
/// x / max(norm, epsilon), with the norm of order p along a dim.
Tensor normalize(Operand x, NormalizeOptions options = {});
/// The sum of products of normalize(x) and normalize(y) along a dim. x and y broadcast.
Tensor cosine_similarity(Operand x, Operand y, int dim = 1, double epsilon = 1e-8);

/// Options of pairwise_distance.
struct PairwiseDistanceOptions {
  double p = 2;
  double epsilon = 1e-6;
  bool keep_dims = false;
};
/// The norm of x - y + epsilon along the last dim. x and y broadcast.
Tensor pairwise_distance(Operand x, Operand y, PairwiseDistanceOptions options = {});
/// The norms of the differences of all pairs of rows: [.., p, m] and [.., r, m] -> [.., p, r]. The batch dims broadcast.
/// The gradient of a distance of 0 is 0. Error if the order p is negative.
Tensor cdist(Operand x, Operand y, double p = 2);

/// The index of the first largest element along `dim`, as s32. NaN counts as largest.
Tensor argmax(Operand x, int dim);
Tensor argmax(Operand x, ArgOptions options = {});
/// The index of the first smallest element along `dim`, as s32. NaN counts as smallest.
Tensor argmin(Operand x, int dim);
Tensor argmin(Operand x, ArgOptions options = {});

/// Element i is the sum of the elements 0..i along `dim`; for pred the number of true elements, as s32.
Tensor cumsum(Operand x, int dim);
/// Element i is the product of the elements 0..i along `dim`; for pred 1 or 0, as s32. The gradient is exact also where
/// elements are 0.
Tensor cumprod(Operand x, int dim);
/// Element i is log(sum(exp(x))) over the elements 0..i along `dim`, without overflow.
Tensor logcumsumexp(Operand x, int dim);

/// exp(x) / sum(exp(x)) along `dim`, without overflow.
Tensor softmax(Operand x, int dim);
/// softmax(-x).
Tensor softmin(Operand x, int dim);
/// log(softmax(x)), without overflow.
Tensor log_softmax(Operand x, int dim);
/// log(sum(exp(x))) along `dim`, without overflow. -inf, with the gradient 0, if all elements are -inf.
Tensor logsumexp(Operand x, int dim);

}  // namespace tessera
