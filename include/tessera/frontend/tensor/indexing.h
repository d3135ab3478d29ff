// SPDX-License-Identifier: Apache-2.0
// Functions that read and write elements at positions, which are tensors of integers. Positions count from 0. A read at
// a position out of range reads the nearest element; a write out of range has no effect.
#pragma once

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// result[i][j][k] = x[i][index[i][j][k]][k] for dim 1, as torch.gather. In the other dims, `index` must not be larger
/// than x.
Tensor gather(Operand x, int dim, Operand index);
/// The same with NumPy's order of arguments. The other dims of `index` broadcast to those of x.
Tensor take_along_dim(Operand x, Operand index, int dim);
/// The elements of a dim at the positions of the vector `index`.
Tensor index_select(Operand x, int dim, Operand index);
/// x with result[i][index[i][j][k]][k] = source[i][j][k] for dim 1, as torch.scatter. If several positions are equal,
/// the last one is written, on every mesh, and only its source gets a gradient. `source` is a number, or a tensor that
/// is at least as large as `index` in each dim.
Tensor scatter(Operand x, int dim, Operand index, Operand source);
/// The same, but all sources are added.
Tensor scatter_add(Operand x, int dim, Operand index, Operand source);
/// ids[...] -> [..., classes]: 1 at the position of the id, else 0. An id out of range gives zeros.
Tensor one_hot(Operand ids, std::int64_t classes, DType dtype = kF32);

/// sum(x * y) / max(|x| * |y|, epsilon) along a dim. x and y broadcast.
Tensor cosine_similarity(Operand x, Operand y, int dim = 1, double epsilon = 1e-8);

}  // namespace tessera
