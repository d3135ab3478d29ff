// SPDX-License-Identifier: Apache-2.0
// Functions that read elements at positions, most of which are tensors of integers. Positions count from 0. A read at a
// position out of range reads the nearest element.
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
/// The elements of x at positions in row-major order, in the shape of `index`. Negative positions count from the end.
Tensor take(Operand x, Operand index);
/// Element `index` of a dim, which is removed. Negative numbers count from the end. Error if there is no such element.
Tensor select(Operand x, int dim, std::int64_t index);
/// `length` elements of a dim from `start` on. A negative start counts from the end. Error if the dim lacks some of
/// them.
Tensor narrow(Operand x, int dim, std::int64_t start, std::int64_t length);
/// The same from a computed start, a scalar of an integer type. The start is clamped so that the elements exist.
Tensor narrow(Operand x, int dim, const Tensor& start, std::int64_t length);
/// ids[...] -> [..., classes]: 1 at the position of the id, else 0. An id out of range gives zeros.
Tensor one_hot(Operand ids, std::int64_t classes, DType dtype = kF32);

}  // namespace tessera
