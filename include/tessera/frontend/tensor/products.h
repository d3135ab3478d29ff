// SPDX-License-Identifier: Apache-2.0
// Matrix products and einsum.
//
//   einsum("bthd,bshd->bhts", {q, k})    scores of attention
//   einsum("...ij,...jk", {x, y})        matmul with batch dims that broadcast
//   einsum("ii->", {m})                  the trace
#pragma once

#include <initializer_list>
#include <source_location>
#include <string_view>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// The product of NumPy's matmul: [.., m, k] x [.., k, n] -> [.., m, n]. The batch dims broadcast. A vector lhs is a
/// row, and a vector rhs is a column; the result does not have the dim of a vector.
Tensor matmul(Operand lhs, Operand rhs);
/// The dims of a general product, dot(): dims of lhs are contracted with dims of rhs, and batch dims are paired. The
/// result has the batch dims, then the other dims of lhs, then those of rhs.
struct DotDims {
  Dims lhs_contracting{};
  Dims rhs_contracting{};
  Dims lhs_batch{};
  Dims rhs_batch{};
};
Tensor dot(Operand lhs, Operand rhs, const DotDims& dims);

/// The sum of products that the equation describes. The equation has one term for each operand, and a term has one
/// letter for each dim. Dims with the same letter have the same size, or size 1, which broadcasts. A letter that occurs
/// twice in one term selects the diagonal. `...` stands for any further dims, which broadcast. Letters that the output
/// does not name are summed. Without `->` the output has the dims of `...`, then the letters that occur once, in
/// alphabetical order (capital letters first).
///
/// Two operands become one `dot`. More operands become a sequence of dots: each step multiplies the two operands whose
/// dot has the fewest FLOPs. All operands must have the same element type.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands,
              std::source_location where = std::source_location::current());
/// The same for a list in braces: `einsum("ij->", {x})`.
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands,
                     std::source_location where = std::source_location::current()) {
  return einsum(equation, std::vector<Tensor>(operands), where);
}
Tensor einsum(std::string_view equation, Operand x);
Tensor einsum(std::string_view equation, Operand x, Operand y);
Tensor einsum(std::string_view equation, Operand x, Operand y, Operand z);

/// x times the transposed weight, plus the bias: x [.., in], weight [out, in], bias [out] -> [.., out].
Tensor linear(Operand x, Operand weight);
Tensor linear(Operand x, Operand weight, Operand bias);

/// The sums of products over the last `dims` dims of x and the first `dims` dims of y, or over the given dims. The result
/// has the other dims of x, then those of y.
Tensor tensordot(Operand x, Operand y, int dims = 2);
Tensor tensordot(Operand x, Operand y, const std::vector<int>& x_dims, const std::vector<int>& y_dims);
/// Kronecker's product: y times each element of x, in blocks.
Tensor kron(Operand x, Operand y);

/// The products of all pairs of elements of two vectors: [m], [n] -> [m, n].
Tensor outer(Operand x, Operand y);
/// The products of the matrices of two batches: [b, m, k] x [b, k, n] -> [b, m, n].
Tensor bmm(Operand x, Operand y);

/// The factors of addmm and baddbmm.
struct AddProductOptions {
  double beta = 1;
  double alpha = 1;
};
/// beta * added + alpha * (x times y), for matrices [m, k] and [k, n]. `added` broadcasts. It is not read if beta is 0.
Tensor addmm(Operand added, Operand x, Operand y, AddProductOptions options = {});
/// The same for batches of matrices, as in bmm.
Tensor baddbmm(Operand added, Operand x, Operand y, AddProductOptions options = {});

}  // namespace tessera
