// SPDX-License-Identifier: Apache-2.0
// Packs the operands of a matrix product into panels as wide as a register tile.
#pragma once

#include <algorithm>

#include "kernels/simd/products/sgemm_tile.h"
#include "tessera/tensor/dtype.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

using Bits = std::uint32_t __attribute__((vector_size(kLanes * sizeof(float))));
using NarrowBits = std::uint16_t __attribute__((vector_size(kLanes * 2), aligned(2), may_alias));

inline Vector load(const BFloat16* from) {
  const Bits bits = __builtin_convertvector(*reinterpret_cast<const NarrowBits*>(from), Bits) << 16;
  return reinterpret_cast<Vector>(bits);
}
inline float widened(float x) { return x; }
inline float widened(BFloat16 x) { return static_cast<float>(x); }

// The lines of an operand: line i at depth k is from[i * line + k * depth].
template <class T>
struct Lines {
  const T* from = nullptr;
  std::int64_t line = 1;
  std::int64_t depth = 1;
};

// Packs contiguous panels of `width` lines each: out[panel][k][i]. There are `count` lines, and a panel of columns is
// padded with zeros. Vector stores may write past a row of a panel; the next row overwrites this, and there is room
// after the last one.
template <class T>
void pack_plain(const Lines<T>& lines, std::int64_t count, std::int64_t width, std::int64_t from, std::int64_t to,
                float* out) {
  for (std::int64_t k = from; k < to; ++k)
    for (std::int64_t i = 0; i < width; ++i)
      out[k * width + i] = i < count ? widened(lines.from[i * lines.line + k * lines.depth]) : 0.0F;
}
// Packs complete panels of adjacent lines, a few at a time, so that reads are long runs and touch few pages.
template <std::int64_t kWidth, class T>
void pack_side_by_side(const Lines<T>& lines, std::int64_t panels, std::int64_t depth, float* out) {
  for (std::int64_t k = 0; k < depth; ++k) {
    const T* from = lines.from + k * lines.depth;
    float* to = out + k * kWidth;
    for (std::int64_t panel = 0; panel < panels; ++panel, from += kWidth, to += depth * kWidth) {
      constexpr std::int64_t kVectorEnd = kWidth / kLanes * kLanes;
      for (std::int64_t i = 0; i < kVectorEnd; i += kLanes) store(to + i, load(from + i));
      if constexpr (sizeof(T) == sizeof(float))
        __builtin_memcpy(to + kVectorEnd, from + kVectorEnd, (kWidth - kVectorEnd) * sizeof(float));
      else
        for (std::int64_t i = kVectorEnd; i < kWidth; ++i) to[i] = widened(from[i]);
    }
  }
}
// Packs lines that are contiguous along the depth: square blocks are transposed in registers.
template <class T>
void pack_turned(const Lines<T>& lines, std::int64_t count, std::int64_t width, std::int64_t depth, float* out) {
  constexpr std::int64_t kSoon = 64;
  const std::int64_t vector_end = depth / kLanes * kLanes;
  for (std::int64_t k = 0; k < vector_end; k += kLanes)
    for (std::int64_t first = 0; first < width; first += kLanes) {
      Vector square[kLanes];
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < kLanes; ++i)
        square[i] = first + i < count ? load(lines.from + (first + i) * lines.line + k) : Vector{};
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < kLanes; ++i)
        if (first + i < count) __builtin_prefetch(lines.from + (first + i) * lines.line + k + kSoon);
      transpose(square);
      float* const to = out + k * width + first;
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < kLanes; ++i) store(to + i * width, square[i]);
    }
  pack_plain(lines, count, width, vector_end, depth, out);
}
// Packs `count` lines into panels. If `pads`, the last panel is padded to the full width.
template <std::int64_t kWidth, class T>
void pack(const Lines<T>& lines, std::int64_t count, bool pads, std::int64_t depth, float* out) {
  constexpr std::int64_t kTogether = 8;
  for (std::int64_t i = 0; i < count;) {
    const Lines<T> here{lines.from + i * lines.line, lines.line, lines.depth};
    const std::int64_t full_panels = std::min(kTogether, (count - i) / kWidth);
    float* const to = out + i * depth;
    if (lines.line == 1 && full_panels > 0) {
      pack_side_by_side<kWidth>(here, full_panels, depth, to);
      i += full_panels * kWidth;
      continue;
    }
    const std::int64_t present = std::min(kWidth, count - i);
    const std::int64_t width = pads ? kWidth : present;
    if (lines.depth == 1 && width == kWidth)
      pack_turned(here, present, width, depth, to);
    else
      pack_plain(here, present, width, 0, depth, to);
    i += kWidth;
  }
}

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
