// SPDX-License-Identifier: Apache-2.0
#include "init/orthogonal.h"

#include <algorithm>

#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/linear_algebra.h"
#include "tessera/ops/structural.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kPanel = 64;  // the number of columns that one Cholesky factor orthogonalizes
// Added to the diagonal of the first product of a panel, relative to it, so that rounding leaves it positive definite.
constexpr double kShift = 1e-13;

// Sums over dim `i` of a and dim `j` of b, for each matrix of the stacks.
Value contracted(Value a, int i, Value b, int j) {
  return ops::dot(
      a, b, {.lhs_batch_dims = {0}, .lhs_contracting_dims = {i}, .rhs_batch_dims = {0}, .rhs_contracting_dims = {j}});
}

Value identity(Builder& builder, const Type& type, double diagonal) {
  const Type index = type.with_dtype(DType::kS32);
  const Value row = ops::iota(builder, index, 1);
  const Value is_diagonal = ops::compare(row, ops::iota(builder, index, 2), CompareDirection::kEq);
  return ops::select(is_diagonal, ops::full(builder, type, diagonal), ops::full(builder, type, 0));
}

// Cholesky QR: P R^-1, where R^T R = P^T P + shift.
Value cholesky_pass(Value panel, double shift) {
  Builder& builder = *panel.builder;
  Value gram = contracted(panel, 1, panel, 1);
  const Type type = gram.type();
  if (shift > 0) gram = ops::add(gram, identity(builder, type, shift));
  const Value lower = ops::cholesky(gram, true);
  const Value inverse = ops::triangular_solve(lower, identity(builder, type, 1), {.left_side = true, .lower = true});
  return contracted(panel, 2, inverse, 2);
}

// The panel without its projection on the columns of q.
Value without(Value q, Value panel) {
  return q.is_null() ? panel : ops::subtract(panel, contracted(q, 2, contracted(q, 1, panel, 1), 1));
}

}  // namespace

// Block Gram-Schmidt: each panel is projected and orthogonalized twice, because one time loses orthogonality if its
// columns are nearly dependent (Stathopoulos and Wu, 2002; Fukaya et al., 2020).
Value orthonormal_columns(Value stack) {
  const std::int64_t rows = stack.type().dim(1);
  const std::int64_t columns = stack.type().dim(2);
  Value q;
  for (std::int64_t begin = 0; begin < columns; begin += kPanel) {
    Value panel = ops::slice_dim(stack, 2, begin, std::min(begin + kPanel, columns));
    panel = cholesky_pass(without(q, panel), kShift * static_cast<double>(rows));
    panel = cholesky_pass(without(q, panel), 0);
    panel = cholesky_pass(panel, 0);
    q = q.is_null() ? panel : ops::concatenate({q, panel}, 2);
  }
  return q;
}

}  // namespace tessera::nn
