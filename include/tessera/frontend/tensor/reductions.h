// SPDX-License-Identifier: Apache-2.0
// Reductions and cumulative functions. Without dims a reduction is over all dims.
//
//   sum(x)    sum(x, 1)    sum(x, {0, -1})    sum(x, {.dims = {1}, .keep_dims = true})    x.sum(1)
#pragma once

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// The sum; for pred the number of true elements, as s32.
Tensor sum(Operand x, ReduceOptions options = {});
Tensor mean(Operand x, ReduceOptions options = {});
/// The largest element. Equal largest elements share the gradient equally, as in torch.amax. NaN if an element is NaN.
Tensor max(Operand x, ReduceOptions options = {});
/// The smallest element, with the same gradient.
Tensor min(Operand x, ReduceOptions options = {});
/// The product. The gradient is exact also where elements are 0.
Tensor prod(Operand x, ReduceOptions options = {});
/// True if an element is true, or not 0. No elements: false.
Tensor any(Operand x, ReduceOptions options = {});
/// True if all elements are true, or not 0. No elements: true.
Tensor all(Operand x, ReduceOptions options = {});
inline Tensor sum(Operand x, ReducedDims dims) { return sum(x, dims.options()); }
inline Tensor mean(Operand x, ReducedDims dims) { return mean(x, dims.options()); }
inline Tensor max(Operand x, ReducedDims dims) { return max(x, dims.options()); }
inline Tensor min(Operand x, ReducedDims dims) { return min(x, dims.options()); }
inline Tensor prod(Operand x, ReducedDims dims) { return prod(x, dims.options()); }
inline Tensor any(Operand x, ReducedDims dims) { return any(x, dims.options()); }
inline Tensor all(Operand x, ReducedDims dims) { return all(x, dims.options()); }

/// The variance: unbiased (correction 1) unless the options say otherwise. Computed in f32 at least. NaN if there are not
/// more elements than the correction.
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
/// (sum |x|^p)^(1/p). Computed in f32 at least. The gradient at a vector of zeros is 0, as in PyTorch.
Tensor norm(Operand x, NormOptions options = {});

/// The index of the first largest element along `dim`, as s32. NaN counts as largest.
Tensor argmax(Operand x, int dim);
Tensor argmax(Operand x, ArgOptions options = {});
/// The index of the first smallest element along `dim`, as s32. NaN counts as smallest.
Tensor argmin(Operand x, int dim);
Tensor argmin(Operand x, ArgOptions options = {});

/// Element i is the sum of the elements 0..i along `dim`.
Tensor cumsum(Operand x, int dim);
/// Element i is the product of the elements 0..i along `dim`. The gradient is exact also where elements are 0.
Tensor cumprod(Operand x, int dim);

Tensor softmax(Operand x, int dim);
Tensor log_softmax(Operand x, int dim);
/// log(sum(exp(x))) along `dim`, without overflow.
Tensor logsumexp(Operand x, int dim);

}  // namespace tessera
