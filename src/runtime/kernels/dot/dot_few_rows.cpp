// SPDX-License-Identifier: Apache-2.0
// Products of a few rows in f32. oneDNN packs the matrix first, which takes longer than the product.
#include "kernels/dot/dot_plan.h"
#include "kernels/simd/kernel_set.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

class FewRowsProduct final : public ProductKernel {
 public:
  static bool takes(const MatrixProduct& p) {
    constexpr std::int64_t kMostRows = 16;
    constexpr std::int64_t kLeast = 1 << 14;  // elements of the matrix
    const bool is_f32 = p.operand == DType::kF32 && p.result == DType::kF32;
    const bool reads_in_order = p.rhs_n == 1 || p.rhs_k == 1;
    return is_f32 && product(p.batch) == 1 && p.m <= kMostRows && p.k * p.n >= kLeast && p.lhs_k == 1 &&
           reads_in_order && p.out_n == 1;
  }
  explicit FewRowsProduct(const MatrixProduct& p) : args_(product_args<kernels::SgemmArgs>(p)) {}
  void run(const std::byte* lhs, const std::byte* rhs, std::byte* out, std::byte* /*workspace*/) const override {
    kernels::SgemmArgs args = args_;
    args.a = lhs;
    args.b = rhs;
    args.out = reinterpret_cast<float*>(out);
    kernels::kernel_set().few_rows(args);
  }

 private:
  kernels::SgemmArgs args_;
};

}  // namespace

std::unique_ptr<ProductKernel> make_few_rows_product(const MatrixProduct& p) {
  if (!FewRowsProduct::takes(p)) return nullptr;
  return std::make_unique<FewRowsProduct>(p);
}

}  // namespace tessera
