// SPDX-License-Identifier: Apache-2.0
// Matrix products in f32. Both operands are packed into panels as wide as a register tile, for any strides, and bf16 is
// converted to f32. Tiles of the result are summed in registers over blocks of the depth that keep the panels in cache.
#include <algorithm>
#include <utility>

#include "kernels/simd/products/sgemm_block.h"
#include "kernels/simd/products/sgemm_packing.h"
#include "kernels/simd/registration.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

// The rows and columns that are packed at a time.
constexpr std::int64_t kBlockRows = 1008;
constexpr std::int64_t kBlockColumns = 3072;

struct Blocks {
  std::int64_t rows, columns, depth;
  explicit Blocks(const SgemmArgs& args)
      : rows(part_of(args.m, kBlockRows, kTileRows)),
        columns(part_of(args.n, kBlockColumns, kTileColumns)),
        depth(part_of(args.k, kDepth, 1)) {}
  // In floats, with room for vector stores past the end.
  [[nodiscard]] std::int64_t left() const { return round_up(rows * depth + kLanes, kLanes); }
  [[nodiscard]] std::int64_t right() const { return columns * depth + kLanes; }
};

template <class T>
void multiply(const SgemmArgs& args) {
  const Blocks block(args);
  float* const left = args.workspace;
  float* const right = left + block.left();
  for (std::int64_t n = 0; n < args.n; n += block.columns)
    for (std::int64_t k = 0; k < args.k; k += block.depth) {
      const std::int64_t columns = std::min(block.columns, args.n - n);
      const std::int64_t depth = std::min(block.depth, args.k - k);
      const T* const b = static_cast<const T*>(args.b) + n * args.b_n + k * args.b_k;
      pack<kTileColumns>(Lines<T>{b, args.b_n, args.b_k}, columns, true, depth, right);
      for (std::int64_t m = 0; m < args.m; m += block.rows) {
        const std::int64_t rows = std::min(block.rows, args.m - m);
        const T* const a = static_cast<const T*>(args.a) + m * args.a_m + k * args.a_k;
        pack<kTileRows>(Lines<T>{a, args.a_m, args.a_k}, rows, false, depth, left);
        multiply_block(left, right, rows, columns,
                       {.depth = depth,
                        .out = args.out + m * args.out_stride + n,
                        .stride = args.out_stride,
                        .adds = args.accumulates || k > 0});
      }
    }
}

void sgemm(const SgemmArgs& args) { args.is_bf16 ? multiply<BFloat16>(args) : multiply<float>(args); }

std::int64_t sgemm_workspace(const SgemmArgs& args) {
  const Blocks block(args);
  return static_cast<std::int64_t>(sizeof(float)) * (block.left() + block.right());
}

}  // namespace

void add_sgemm(KernelSet& set) {
  set.sgemm = sgemm;
  set.sgemm_workspace = sgemm_workspace;
}

}  // namespace tessera::kernels::TESSERA_ISA
