// SPDX-License-Identifier: Apache-2.0
// The product of packed panels.
#pragma once

#include <algorithm>

#include "kernels/simd/products/sgemm_tile.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

// The depth of a product for which panels of both operands stay in cache.
constexpr std::int64_t kDepth = 384;
constexpr std::int64_t kInnerColumns = 480;  // that are multiplied with one panel of rows

// Computes a tile of fewer than kTileColumns columns.
inline void multiply_narrow(Tile tile, std::int64_t rows, std::int64_t columns) {
  alignas(64) float all[kTileRows * kTileColumns];
  float* const out = std::exchange(tile.out, all);
  const std::int64_t stride = std::exchange(tile.stride, kTileColumns);
  const bool adds = std::exchange(tile.adds, false);
  kTileOfRows[static_cast<std::size_t>(rows) - 1](tile);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      float& to = out[i * stride + j];
      to = all[i * kTileColumns + j] + (adds ? to : 0.0F);
    }
}

// Multiplies packed blocks. While it uses a panel of rows, it prefetches the next one into the second-level cache.
inline void multiply_block(const float* left, const float* right, std::int64_t rows, std::int64_t columns, Tile tile) {
  float* const out = tile.out;
  const std::int64_t depth = tile.depth;
  const std::int64_t inner =
      part_of(columns, kInnerColumns * kDepth / std::max<std::int64_t>(depth, kDepth / 4), kTileColumns);
  for (std::int64_t start = 0; start < columns; start += inner) {
    const std::int64_t end = std::min(columns, start + inner);
    const std::int64_t soon = round_up(kTileRows * depth * kTileColumns / (end - start), 16);
    for (std::int64_t i = 0; i < rows; i += kTileRows) {
      const std::int64_t height = std::min(kTileRows, rows - i);
      tile.rows = left + i * depth;
      tile.soon = tile.rows + kTileRows * depth;
      tile.soon_count = i + kTileRows < rows ? soon : 0;
      for (std::int64_t j = start; j < end; j += kTileColumns) {
        tile.columns = right + j * depth;
        tile.out = out + i * tile.stride + j;
        if (j + kTileColumns <= columns)
          kTileOfRows[static_cast<std::size_t>(height) - 1](tile);
        else
          multiply_narrow(tile, height, columns - j);
        tile.soon += soon;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
