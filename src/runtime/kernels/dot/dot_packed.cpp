// SPDX-License-Identifier: Apache-2.0
// Products by the kernel set's loop, which packs both operands and converts bf16 to f32 meanwhile.
#include <algorithm>

#include "kernels/dot/dot_plan.h"
#include "kernels/simd/kernel_set.h"
#include "tessera/base/instruction_set.h"

namespace tessera {
namespace {

class PackedProduct final : public ProductKernel {
 public:
  static bool takes(const MatrixProduct& p) {
    // Packing does not pay for small products.
    constexpr std::int64_t kFewestRows = 8;
    constexpr std::int64_t kFewestColumns = 16;
    constexpr std::int64_t kFewest = 1 << 15;  // multiplications
    const bool is_large = p.m >= kFewestRows && p.n >= kFewestColumns && p.m * p.n * p.k >= kFewest && p.out_n == 1;
    return is_large && p.result == DType::kF32 && (p.operand == DType::kBF16 || is_faster_than_sgemm(p));
  }
  explicit PackedProduct(const MatrixProduct& p) : product_(p), args_(product_args<kernels::SgemmArgs>(p)) {
    args_.is_bf16 = p.operand == DType::kBF16;
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return kernels::kernel_set().sgemm_workspace(args_); }
  void run(const std::byte* lhs, const std::byte* rhs, std::byte* out, std::byte* workspace) const override {
    const std::int64_t size = dtype_size(product_.operand);
    for_each_batch(product_, [&](std::int64_t l, std::int64_t r, std::int64_t o) {
      kernels::SgemmArgs args = args_;
      args.a = lhs + l * size;
      args.b = rhs + r * size;
      args.out = reinterpret_cast<float*>(out) + o;
      args.workspace = reinterpret_cast<float*>(workspace);
      kernels::kernel_set().sgemm(args);
    });
  }

 private:
  // Gradients of weights (a transposed left operand) for which dnnl_sgemm is slow.
  static bool is_faster_than_sgemm(const MatrixProduct& p) {
    if (p.operand != DType::kF32 || p.lhs_m != 1 || p.lhs_k <= 1) return false;
    if (instruction_set() >= InstructionSet::kAvx512) {
      // There it reads a left operand that the second-level cache does not hold at up to half its speed. The loop packs
      // runs of rows and keeps its speed (1.1 to 2.1 times as fast).
      constexpr std::int64_t kCached = 1 << 20;  // elements
      return p.m * p.k >= kCached;
    }
    return instruction_set() == InstructionSet::kAvx2 && sgemm_evicts_lines(p);
  }
  // With AVX2, dnnl_sgemm does not pack operands if 1/m + 1/n is at least 0.0038. Rows of an operand that are a multiple
  // of half the period of the first-level cache apart then evict each other (the loop is 0.9 to 2.9 times as fast).
  static bool sgemm_evicts_lines(const MatrixProduct& p) {
    constexpr double kUnpacked = 0.0038;
    constexpr std::int64_t kFewestLines = 96;  // of each operand, for which packing pays
    constexpr std::int64_t kPeriod = 4096;     // bytes after which addresses share a set of the cache
    if (std::min(p.m, p.n) < kFewestLines) return false;
    const auto collides = [](std::int64_t stride) { return stride * std::int64_t{sizeof(float)} % (kPeriod / 2) == 0; };
    const bool is_unpacked = 1.0 / static_cast<double>(p.m) + 1.0 / static_cast<double>(p.n) >= kUnpacked;
    return is_unpacked && (collides(p.lhs_k) || (p.rhs_n == 1 && collides(p.rhs_k)));
  }

  MatrixProduct product_;
  kernels::SgemmArgs args_;
};

}  // namespace

std::unique_ptr<ProductKernel> make_packed_product(const MatrixProduct& p) {
  return PackedProduct::takes(p) ? std::make_unique<PackedProduct>(p) : nullptr;
}

}  // namespace tessera
