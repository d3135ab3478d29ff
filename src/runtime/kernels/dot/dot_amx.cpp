// SPDX-License-Identifier: Apache-2.0
// Large products of bf16 on the processor's tile registers, if it has them. They are faster than oneDNN's products for
// all operand layouts.
#include "kernels/dot/dot_plan.h"
#include "kernels/simd/tile_product.h"
#include "tessera/base/instruction_set.h"

namespace tessera {

#if defined(__x86_64__)
namespace {

class TileProduct final : public ProductKernel {
 public:
  explicit TileProduct(const MatrixProduct& p) : product_(p), args_(product_args<kernels::TileProductArgs>(p)) {
    args_.rounds = p.result == DType::kBF16;
  }
  static bool takes(const MatrixProduct& p) {
    constexpr std::int64_t kFewestLines = 32;
    constexpr std::int64_t kFewest = 1 << 20;  // multiplications; packing costs more than the gain for smaller products
    const bool fits = p.operand == DType::kBF16 &&
                      (p.result == DType::kF32 || (p.result == DType::kBF16 && !p.accumulates)) &&
                      (p.lhs_m == 1 || p.lhs_k == 1) && (p.rhs_k == 1 || p.rhs_n == 1) && p.out_n == 1;
    const bool is_large =
        p.m >= kFewestLines && p.n >= kFewestLines && p.k >= kFewestLines && p.m * p.n * p.k >= kFewest;
    return fits && is_large && instruction_set() >= InstructionSet::kAmx;
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return kernels::tile_product_workspace(args_); }
  void run(const std::byte* lhs, const std::byte* rhs, std::byte* out, std::byte* workspace) const override {
    const std::int64_t result_bytes = dtype_size(product_.result);
    for_each_batch(product_, [&](std::int64_t l, std::int64_t r, std::int64_t o) {
      kernels::TileProductArgs args = args_;
      args.a = reinterpret_cast<const std::uint16_t*>(lhs) + l;
      args.b = reinterpret_cast<const std::uint16_t*>(rhs) + r;
      args.out = out + o * result_bytes;
      args.workspace = workspace;
      kernels::tile_product(args);
    });
  }

 private:
  MatrixProduct product_;
  kernels::TileProductArgs args_;
};

}  // namespace

std::unique_ptr<ProductKernel> make_tile_product(const MatrixProduct& product) {
  return TileProduct::takes(product) ? std::make_unique<TileProduct>(product) : nullptr;
}
#else
std::unique_ptr<ProductKernel> make_tile_product(const MatrixProduct& /*product*/) { return nullptr; }
#endif

}  // namespace tessera
