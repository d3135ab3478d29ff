// SPDX-License-Identifier: Apache-2.0
// Reading and writing at positions that are tensors of integers. Positions count from 0. Reading moves positions that
// are out of range to the nearest element; writing ignores them.
#pragma once

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// result[i][j][k] = x[i][index[i][j][k]][k] for dim 1, as torch.gather. The sizes of index in the other dims are not
/// larger than those of x.
Tensor gather(Operand x, int dim, Operand index);
/// The same with the order of arguments of NumPy; the other dims of `index` broadcast to those of x.
Tensor take_along_dim(Operand x, Operand index, int dim);
/// The elements of a dim at the positions of the vector `index`.
Tensor index_select(Operand x, int dim, Operand index);
/// x with result[i][index[i][j][k]][k] = source[i][j][k] for dim 1, as torch.scatter. If several positions are equal, the
/// last one is written, on every mesh, and only its source has a gradient. `source` is a tensor of at least the sizes of
/// index, or a number.
Tensor scatter(Operand x, int dim, Operand index, Operand source);
/// The same, but all sources are added.
Tensor scatter_add(Operand x, int dim, Operand index, Operand source);
/// ids[...] -> [..., classes]: 1 at the position of the id, else 0. An id out of range gives zeros.
Tensor one_hot(Operand ids, std::int64_t classes, DType dtype = kF32);

/// sum(x * y) / max(|x| * |y|, epsilon) along a dim. x and y broadcast.
Tensor cosine_similarity(Operand x, Operand y, int dim = 1, double epsilon = 1e-8);

}  // namespace tessera
