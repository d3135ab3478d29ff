// SPDX-License-Identifier: Apache-2.0
// Products of bf16 matrices on the processor's tile registers (AMX).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::kernels {

/// out[m,n] = a[m,k] b[k,n], or added to it, summed in f32. Each operand has a unit stride, and so do the rows of
/// `out`. Requires k >= 1.
struct TileProductArgs {
  std::int64_t m = 0, n = 0, k = 0;
  const std::uint16_t* a = nullptr;  // bits of bf16
  const std::uint16_t* b = nullptr;
  void* out = nullptr;
  std::int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, out_stride = 0;  // strides in elements
  bool rounds = false;                                              // out is bf16, else f32
  bool accumulates = false;                                         // f32 only
  std::byte* workspace = nullptr;  // tile_product_workspace() bytes, aligned to a cache line
};

/// Only for processors with bf16 tiles and processes that may use them.
void tile_product(const TileProductArgs& args);
std::int64_t tile_product_workspace(const TileProductArgs& args);

}  // namespace tessera::kernels
