// SPDX-License-Identifier: Apache-2.0
// Which dims of a parameter form the rows and the columns of its matrix.
#pragma once

#include <optional>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera::optim {

/// The dims of a parameter that is a matrix, or a batch of matrices. A parameter may have more dims than in files: the
/// weight of an attention layer is stored as [in, 3, heads, width], and its columns are the dims 1, 2 and 3. The dim of a
/// stack belongs to the batch.
struct MatrixDims {
  std::vector<int> batch;
  std::vector<int> rows;
  std::vector<int> columns;
};
/// Nullopt for vectors and scalars. If the parameter has more than two dims in files, the last two are the matrix.
std::optional<MatrixDims> matrix_dims(const Tensor& parameter);
/// Whether the parameter is one matrix in files.
bool is_matrix(const Tensor& parameter);
/// All dims but that of a stack.
std::vector<int> own_dims(const Tensor& parameter);

}  // namespace tessera::optim
