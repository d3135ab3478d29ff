// SPDX-License-Identifier: Apache-2.0
// A dot as a batched matrix product over strides, and the kernels that run it.
#pragma once

#include "kernels/kernel.h"

namespace tessera {

/// out[b.., m, n] = sum over k of lhs[b.., m, k] rhs[b.., k, n]. Strides are in elements, and 0 along batch dims that
/// an operand does not have.
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
  /// Returns the size of the workspace, which starts at a cache line.
  [[nodiscard]] virtual std::int64_t workspace_bytes() const { return 0; }
};

/// The arguments of a loop over one product (kernels::SgemmArgs, kernels::TileProductArgs) without its addresses.
template <class Args>
Args product_args(const MatrixProduct& p) {
  Args args;
  args.m = p.m, args.n = p.n, args.k = p.k;
  args.a_m = p.lhs_m, args.a_k = p.lhs_k, args.b_k = p.rhs_k, args.b_n = p.rhs_n;
  args.out_stride = p.out_m;
  args.accumulates = p.accumulates;
  return args;
}

// Calls f(lhs, rhs, out) with the element offsets of every batch element.
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

/// Returns null if oneDNN has no fast implementation for these types and strides on this processor.
std::unique_ptr<ProductKernel> make_onednn_product(const MatrixProduct& product);
/// Returns null if this processor has no tiles for these types, or the product is too small to profit.
std::unique_ptr<ProductKernel> make_tile_product(const MatrixProduct& product);
/// Returns null unless the product has a few rows in f32 and a large matrix with a unit stride.
std::unique_ptr<ProductKernel> make_few_rows_product(const MatrixProduct& product);
/// Returns null unless the product is large, sums in f32, and its operands are bf16, or f32 in a layout for which the loop
/// is faster than oneDNN.
std::unique_ptr<ProductKernel> make_packed_product(const MatrixProduct& product);
/// Returns the fastest kernel that reads the operands in place and does not need to round the result, or null if there
/// is none.
std::unique_ptr<ProductKernel> make_product(const MatrixProduct& product);
/// Computes products of 16-bit floats in f32. Returns null for other types, and for results that are not row-major and
/// must be rounded.
std::unique_ptr<ProductKernel> make_emulated_product(const MatrixProduct& product);
/// Supports any types and strides, but is slow.
std::unique_ptr<ProductKernel> make_plain_product(const MatrixProduct& product);

}  // namespace tessera
