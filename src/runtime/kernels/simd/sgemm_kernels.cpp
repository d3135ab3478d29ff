// SPDX-License-Identifier: Apache-2.0
// Matrix products in f32. Both operands are packed into panels as wide as a register tile, for any strides, and bf16 is
// converted to f32. Tiles of the result are summed in registers over blocks of the depth that keep the panels in cache.
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/simd/registration.h"

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

// Block sizes: the depth of a product, so that panels of both operands stay in cache, and the rows and columns that are
// packed at a time.
constexpr std::int64_t kDepth = 384;
constexpr std::int64_t kInnerColumns = 480;  // that are multiplied with one panel of rows
constexpr std::int64_t kBlockRows = 1008;
constexpr std::int64_t kBlockColumns = 3072;

using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
using LooseVector = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));
using Bits = std::uint32_t __attribute__((vector_size(kLanes * sizeof(float))));
using NarrowBits = std::uint16_t __attribute__((vector_size(kLanes * 2), aligned(2), may_alias));

Vector load(const float* from) { return *reinterpret_cast<const LooseVector*>(from); }
Vector load(const BFloat16* from) {
  const Bits bits = __builtin_convertvector(*reinterpret_cast<const NarrowBits*>(from), Bits) << 16;
  return reinterpret_cast<Vector>(bits);
}
void store(float* to, Vector value) { *reinterpret_cast<LooseVector*>(to) = value; }
float widened(float x) { return x; }
float widened(BFloat16 x) { return static_cast<float>(x); }

// ---- the tile -----------------------------------------------------------------------------------------------------------------

struct Tile {
  const float* rows = nullptr;     // [depth, kRows]
  const float* columns = nullptr;  // [depth, kTileColumns]
  std::int64_t depth = 0;
  float* out = nullptr;
  std::int64_t stride = 0;
  bool adds = false;
  const float* soon = nullptr;  // floats to prefetch that the next tiles read
  std::int64_t soon_count = 0;
};

template <std::int64_t kRows>
void multiply_tile(const Tile& tile) {
  constexpr std::int64_t kLine = 16;  // floats
  for (std::int64_t i = 0; i < tile.soon_count; i += kLine) __builtin_prefetch(tile.soon + i, 0, 2);
  Vector sums[kRows][kVectors] = {};
  const float* rows = tile.rows;
  const float* columns = tile.columns;
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
      __builtin_prefetch(columns + j * kLanes + kAhead * kTileColumns);
    }
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (std::int64_t j = 0; j < kVectors; ++j) sums[i][j] += rows[i] * right[j];
    rows += kRows;
    columns += kTileColumns;
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
constexpr auto kTileOfRows = []<std::size_t... I>(std::index_sequence<I...>) {
  return std::array<MultiplyTile, sizeof...(I)>{multiply_tile<static_cast<std::int64_t>(I) + 1>...};
}(std::make_index_sequence<kTileRows>{});

// Computes a tile of fewer than kTileColumns columns.
void multiply_narrow(Tile tile, std::int64_t rows, std::int64_t columns) {
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

// ---- packing ------------------------------------------------------------------------------------------------------------------

template <bool kHigh, std::size_t... I>
Vector interleave(Vector a, Vector b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b,
                                 (static_cast<std::int64_t>(I / 2) + (kHigh ? kLanes / 2 : 0) + (I % 2) * kLanes)...);
}
void transpose(Vector (&rows)[kLanes]) {
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
      constexpr std::int64_t kWhole = kWidth / kLanes * kLanes;
      for (std::int64_t i = 0; i < kWhole; i += kLanes) store(to + i, load(from + i));
      if constexpr (sizeof(T) == sizeof(float))
        __builtin_memcpy(to + kWhole, from + kWhole, (kWidth - kWhole) * sizeof(float));
      else
        for (std::int64_t i = kWhole; i < kWidth; ++i) to[i] = widened(from[i]);
    }
  }
}
// Packs lines that are contiguous along the depth: square blocks are transposed in registers.
template <class T>
void pack_turned(const Lines<T>& lines, std::int64_t count, std::int64_t width, std::int64_t depth, float* out) {
  constexpr std::int64_t kSoon = 64;
  const std::int64_t whole = depth / kLanes * kLanes;
  for (std::int64_t k = 0; k < whole; k += kLanes)
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
  pack_plain(lines, count, width, whole, depth, out);
}
// Packs `count` lines into panels. If `pads`, the last panel is padded to the full width.
template <std::int64_t kWidth, class T>
void pack(const Lines<T>& lines, std::int64_t count, bool pads, std::int64_t depth, float* out) {
  constexpr std::int64_t kTogether = 8;
  for (std::int64_t i = 0; i < count;) {
    const Lines<T> here{lines.from + i * lines.line, lines.line, lines.depth};
    const std::int64_t whole = std::min(kTogether, (count - i) / kWidth);
    float* const to = out + i * depth;
    if (lines.line == 1 && whole > 0) {
      pack_side_by_side<kWidth>(here, whole, depth, to);
      i += whole * kWidth;
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

// ---- the product --------------------------------------------------------------------------------------------------------------

std::int64_t round_up(std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit * unit; }
// Returns the size of equal parts of at most `most`, in multiples of `unit`.
std::int64_t part_of(std::int64_t count, std::int64_t most, std::int64_t unit) {
  const std::int64_t parts = std::max<std::int64_t>(1, (count + most - 1) / most);
  return round_up((count + parts - 1) / parts, unit);
}

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

// Multiplies packed blocks. While it uses a panel of rows, it prefetches the next one into the second-level cache.
void multiply_block(const float* left, const float* right, std::int64_t rows, std::int64_t columns, Tile tile) {
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
