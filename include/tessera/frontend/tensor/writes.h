// SPDX-License-Identifier: Apache-2.0
// Functions that write elements at positions, which are tensors of integers. Each returns a new tensor that equals x
// elsewhere; x does not change. A write at a position out of range has no effect. `x.at(...)` (tensor.h) writes the
// elements that a subscript selects.
#pragma once

#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// x with result[i][index[i][j][k]][k] = source[i][j][k] for dim 1, as torch.scatter. If several positions are equal,
/// the last one is written, on every mesh, and only its source gets a gradient. `source` is a number, or a tensor that
/// is at least as large as `index` in each dim.
Tensor scatter(Operand x, int dim, Operand index, Operand source);
/// The same, but all sources are added.
Tensor scatter_add(Operand x, int dim, Operand index, Operand source);
/// The same, but each element that has sources becomes the sum, product, mean, maximum or minimum of its sources and of
/// x, or only of its sources if `include_self` is false. Equal extremal elements share the gradient equally. The
/// gradient of the product is exact at zeros, but second derivatives are not. kMean requires floats.
Tensor scatter_reduce(Operand x, int dim, Operand index, Operand source, ScatterReduction reduction,
                      ScatterReduceOptions options = {});

/// x with `values` at the elements that the subscript selects: x.at(indices).set(values). With `accumulate`, all values
/// are added: x.at(indices).add(values).
Tensor index_put(Operand x, const std::vector<Index>& indices, Operand values, IndexPutOptions options = {});

/// x with the parts of `source` along a dim added at the positions of the vector `index`. `source` has the shape of x,
/// with the size of `index` along the dim.
Tensor index_add(Operand x, int dim, Operand index, Operand source);
/// The same, but the parts of `source` replace those of x. If positions are equal, the last part is written, on every
/// mesh, and only it gets a gradient.
Tensor index_copy(Operand x, int dim, Operand index, Operand source);
/// x with a number or a scalar tensor in all elements at the positions of the vector `index` along a dim. Negative
/// positions count from the end.
Tensor index_fill(Operand x, int dim, Operand index, Operand value);

/// x with the elements of `source`, in row-major order, in place of the elements where the mask (pred) holds. The mask
/// broadcasts to x. If the source has fewer elements than the mask has true ones, its last element is repeated.
Tensor masked_scatter(Operand x, Operand mask, Operand source);

}  // namespace tessera
