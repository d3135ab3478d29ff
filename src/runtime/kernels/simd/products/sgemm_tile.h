// SPDX-License-Identifier: Apache-2.0
// Register tiles of f32 matrix products, shared by the sources of a kernel set.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

namespace tessera::kernels::TESSERA_ISA {
namespace {

#if defined(__AVX512F__)
constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kTileRows = 14;  // times two vectors: 28 of 32 registers
#elif defined(__AVX2__)
constexpr std::int64_t kLanes = 8;
constexpr std::int64_t kTileRows = 6;
#else
constexpr std::int64_t kLanes = 4;
constexpr std::int64_t kTileRows = 4;
#endif
constexpr std::int64_t kVectors = 2;
constexpr std::int64_t kTileColumns = kVectors * kLanes;
static_assert(kTileRows <= kLanes, "packing stores whole vectors, of which the next row overwrites what is too much");

using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
using LooseVector = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));

inline Vector load(const float* from) { return *reinterpret_cast<const LooseVector*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<LooseVector*>(to) = value; }

struct Tile {
  const float* rows = nullptr;     // [depth, kRows]
  const float* columns = nullptr;  // [depth, kTileColumns]
  std::int64_t depth = 0;
  float* out = nullptr;
  std::int64_t stride = 0;
  bool adds = false;
  const float* soon = nullptr;  // floats to prefetch that the next tiles read
  std::int64_t soon_count = 0;
  std::int64_t columns_stride = kTileColumns;  // between depths
};

template <std::int64_t kRows>
void multiply_tile(const Tile& tile) {
  constexpr std::int64_t kLine = 16;  // floats
  for (std::int64_t i = 0; i < tile.soon_count; i += kLine) __builtin_prefetch(tile.soon + i, 0, 2);
  Vector sums[kRows][kVectors] = {};
  const float* rows = tile.rows;
  const float* columns = tile.columns;
  const std::int64_t columns_stride = tile.columns_stride;
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (std::int64_t j = 0; j < kVectors; ++j) __builtin_prefetch(tile.out + i * tile.stride + j * kLanes, 1);
#pragma GCC unroll 2
  for (std::int64_t k = 0; k < tile.depth; ++k) {
    constexpr std::int64_t kAhead = 8;
    Vector right[kVectors];
#pragma GCC unroll 2
    for (std::int64_t j = 0; j < kVectors; ++j) {
      right[j] = load(columns + j * kLanes);
      __builtin_prefetch(columns + j * kLanes + kAhead * columns_stride);
    }
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (std::int64_t j = 0; j < kVectors; ++j) sums[i][j] += rows[i] * right[j];
    rows += kRows;
    columns += columns_stride;
  }
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (std::int64_t j = 0; j < kVectors; ++j) {
      float* const out = tile.out + i * tile.stride + j * kLanes;
      store(out, tile.adds ? load(out) + sums[i][j] : sums[i][j]);
    }
}

using MultiplyTile = void (*)(const Tile&);
/// The function for a tile of n rows is at n - 1.
constexpr auto kTileOfRows = []<std::size_t... I>(std::index_sequence<I...>) {
  return std::array<MultiplyTile, sizeof...(I)>{multiply_tile<static_cast<std::int64_t>(I) + 1>...};
}(std::make_index_sequence<kTileRows>{});

template <bool kHigh, std::size_t... I>
Vector interleave(Vector a, Vector b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b,
                                 (static_cast<std::int64_t>(I / 2) + (kHigh ? kLanes / 2 : 0) + (I % 2) * kLanes)...);
}
/// Exchanges rows and columns of a square.
inline void transpose(Vector (&rows)[kLanes]) {
  constexpr auto kAll = std::make_index_sequence<kLanes>{};
#pragma GCC unroll 4
  for (std::int64_t stage = 1; stage < kLanes; stage *= 2) {
    Vector next[kLanes];
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = interleave<false>(rows[i], rows[i + kLanes / 2], kAll);
      next[2 * i + 1] = interleave<true>(rows[i], rows[i + kLanes / 2], kAll);
    }
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kLanes; ++i) rows[i] = next[i];
  }
}

inline std::int64_t round_up(std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit * unit; }
/// Returns the size of equal parts of at most `most`, in multiples of `unit`.
inline std::int64_t part_of(std::int64_t count, std::int64_t most, std::int64_t unit) {
  std::int64_t parts = (count + most - 1) / most;
  if (parts < 1) parts = 1;
  return round_up((count + parts - 1) / parts, unit);
}

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
