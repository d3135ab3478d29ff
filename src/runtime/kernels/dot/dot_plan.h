// SPDX-License-Identifier: Apache-2.0
// A dot as a batched matrix product over strides, and what runs one.
#pragma once

#include "kernels/kernel.h"

namespace tessera {

/// out[b.., m, n] = sum over k of lhs[b.., m, k] rhs[b.., k, n]; strides in elements, 0 where an operand has no such batch dim.
struct MatrixProduct {
  DType operand = DType::kF32;
  DType result = DType::kF32;
  Dims batch, lhs_batch, rhs_batch, out_batch;  // sizes and strides
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t lhs_m = 1, lhs_k = 1, rhs_k = 1, rhs_n = 1, out_m = 1, out_n = 1;  // strides
  bool accumulates = false;                                                       // adds to what `out` holds
};

/// Runs products of one shape.
class ProductKernel {
 public:
  virtual ~ProductKernel() = default;
  virtual void run(const std::byte* lhs, const std::byte* rhs, std::byte* out, std::byte* workspace) const = 0;
  /// Of the workspace, which starts at a cache line.
  [[nodiscard]] virtual std::int64_t workspace_bytes() const { return 0; }
};

// f(lhs, rhs, out) with the element offsets of every batch.
template <class F>
void for_each_batch(const MatrixProduct& p, F&& f) {
  for_each_index(p.batch, [&](const Dims& index) {
    std::int64_t lhs = 0;
    std::int64_t rhs = 0;
    std::int64_t out = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      lhs += index[d] * p.lhs_batch[d];
      rhs += index[d] * p.rhs_batch[d];
      out += index[d] * p.out_batch[d];
    }
    f(lhs, rhs, out);
  });
}

/// Null where oneDNN has no fast form of these types and strides on this processor.
std::unique_ptr<ProductKernel> make_onednn_product(const MatrixProduct& product);
/// Null where this processor has no tiles for these types, or the product is too small to gain by them.
std::unique_ptr<ProductKernel> make_tile_product(const MatrixProduct& product);
/// The fastest of the kernels that take the operands where they lie and need no rounding of the result; null where there is none.
std::unique_ptr<ProductKernel> make_product(const MatrixProduct& product);
/// Of 16-bit floats, through f32. Null for other types, or where the result does not lie row by row and must be rounded.
std::unique_ptr<ProductKernel> make_emulated_product(const MatrixProduct& product);
/// Of any types and strides, slowly.
std::unique_ptr<ProductKernel> make_plain_product(const MatrixProduct& product);

}  // namespace tessera
