// SPDX-License-Identifier: Apache-2.0
// Tile registers (AMX) of 16 rows of 64 bytes, and the transposition of such tiles. Only for kernel sets with AMX.
#pragma once

#include <immintrin.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tessera::kernels {
namespace {

struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// In static memory, because g++ 12 does not know that the instruction reads all bytes, and removes stores to them.
constexpr TileConfiguration kTileConfiguration;

// Gives all tile registers 16 rows of 64 bytes, until it is destroyed. Registers 0 to 3 hold sums, 4 and 5 parts of the
// left operand, 6 and 7 parts of the right operand.
class AmxRegisters {
 public:
  AmxRegisters() { _tile_loadconfig(&kTileConfiguration); }
  ~AmxRegisters() { _tile_release(); }
  AmxRegisters(const AmxRegisters&) = delete;
  AmxRegisters& operator=(const AmxRegisters&) = delete;
};

// g++ 12 does not know either that loads and stores of tile registers access memory. Call this between them and other
// accesses to the same memory.
inline void order_tile_accesses() { std::atomic_signal_fence(std::memory_order_seq_cst); }

using Words = std::uint32_t __attribute__((vector_size(64)));

template <bool kHigh>
Words interleave(Words a, Words b) {
  constexpr int kFirst = kHigh ? 8 : 0;
  return __builtin_shufflevector(a, b, kFirst, kFirst + 16, kFirst + 1, kFirst + 17, kFirst + 2, kFirst + 18,
                                 kFirst + 3, kFirst + 19, kFirst + 4, kFirst + 20, kFirst + 5, kFirst + 21, kFirst + 6,
                                 kFirst + 22, kFirst + 7, kFirst + 23);
}
// Transposes 16 x 16 words of 32 bits: `tile[i]` is a row.
inline void transpose(__m512i (&tile)[16]) {
  Words rows[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) rows[i] = reinterpret_cast<Words>(tile[i]);
#pragma GCC unroll 4
  for (int stage = 0; stage < 4; ++stage) {
    Words next[16];
#pragma GCC unroll 8
    for (std::ptrdiff_t i = 0; i < 8; ++i) {
      next[2 * i] = interleave<false>(rows[i], rows[i + 8]);
      next[2 * i + 1] = interleave<true>(rows[i], rows[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) rows[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) tile[i] = reinterpret_cast<__m512i>(rows[i]);
}

}  // namespace
}  // namespace tessera::kernels
