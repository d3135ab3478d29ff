// SPDX-License-Identifier: Apache-2.0
// Products of bf16 matrices on tile registers. Both operands are packed, for any strides, into panels of 32 lines. For
// 32 steps of depth a panel has two tiles of 16 rows of 64 bytes. A row of a left tile is one line with 32 depths; a
// row of a right tile is a pair of depths of 16 lines. The inner loop sums 32 x 32 elements of the result.
#include "kernels/simd/tile_product.h"

#include <immintrin.h>

#include <algorithm>
#include <cstddef>

#include "kernels/simd/amx_registers.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kWidth = 32;            // lines in a panel
constexpr std::int64_t kTile = 512;            // bf16 elements in a tile
constexpr std::int64_t kRow = 32;              // bf16 elements in a row of a tile
constexpr std::int64_t kStep = kWidth * kRow;  // bf16 elements of a panel for one step of depth: two tiles
constexpr std::int64_t kSumsBytes = kWidth * static_cast<std::int64_t>(sizeof(float));  // bytes in a row of sums
constexpr std::int64_t kTogether = 8;  // panels packed at a time, so that reads are long runs and touch few pages
constexpr std::int64_t kSteps = 8;     // steps of depth for which a panel of columns stays in the first-level cache
// Block sizes: the depth, the elements of the left operand, which stay in the second-level cache, and those of the
// right operand.
constexpr std::int64_t kDepth = 1024;
constexpr std::int64_t kLeft = 1 << 18;
constexpr std::int64_t kRight = 1 << 21;
// The rows and columns of the f32 sums that are kept between blocks of depth until they are rounded.
constexpr std::int64_t kKept = 1024;

std::int64_t round_up(std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit * unit; }
// Returns the size of equal parts of at most `most`, in multiples of `unit`.
std::int64_t part_of(std::int64_t count, std::int64_t most, std::int64_t unit) {
  const std::int64_t parts = std::max<std::int64_t>(1, (count + most - 1) / most);
  return round_up((count + parts - 1) / parts, unit);
}

// ---- packing ------------------------------------------------------------------------------------------------------------------

// Line i of an operand at depth k is from[i * line + k * depth].
struct Lines {
  const std::uint16_t* from = nullptr;
  std::int64_t line = 1;
  std::int64_t depth = 1;
  std::int64_t count = 0;   // number of lines
  std::int64_t depths = 0;  // length of each line
};

__mmask32 first_of(std::int64_t count) {
  return count >= kRow ? ~__mmask32{0} : count <= 0 ? __mmask32{0} : (__mmask32{1} << count) - 1;
}

void store_tile(std::uint16_t* to, const __m512i (&tile)[16]) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * kRow, tile[i]);
}

// Loads 16 lines that are contiguous along the depth, from depth k on: each into a row.
void load_lines(const Lines& lines, std::int64_t first, std::int64_t k, __m512i (&tile)[16]) {
  const __mmask32 mask = first_of(lines.depths - k);
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < 16; ++i)
    tile[i] = first + i < lines.count ? _mm512_maskz_loadu_epi16(mask, lines.from + (first + i) * lines.line + k)
                                      : _mm512_setzero_si512();
}

// Loads depths k and k + 1 of 32 adjacent lines as pairs: of the first 16 lines, and of the others.
void load_pairs(const Lines& lines, std::int64_t first, std::int64_t k, __m512i& low, __m512i& high) {
  const __mmask32 mask = first_of(lines.count - first);
  const auto at_depth = [&](std::int64_t depth) {
    return depth < lines.depths ? _mm512_maskz_loadu_epi16(mask, lines.from + first + depth * lines.depth)
                                : _mm512_setzero_si512();
  };
  const __m512i even = at_depth(k);
  const __m512i odd = at_depth(k + 1);
  const __m512i halves =
      _mm512_cvtepu8_epi16(_mm256_setr_epi8(0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41, 10,
                                            42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47));
  low = _mm512_permutex2var_epi16(even, halves, odd);
  high = _mm512_permutex2var_epi16(even, _mm512_add_epi16(halves, _mm512_set1_epi16(16)), odd);
}

// Packs the left operand: the rows of a tile are lines.
void pack_left(const Lines& lines, std::uint16_t* to) {
  const std::int64_t steps = (lines.depths + kRow - 1) / kRow;
  const std::int64_t panels = (lines.count + kWidth - 1) / kWidth;
  if (lines.depth == 1) {
    for (std::int64_t line = 0; line < panels * kWidth; ++line) {
      std::uint16_t* row = to + line / kWidth * steps * kStep + line % kWidth * kRow;
      const std::uint16_t* from = lines.from + line * lines.line;
      for (std::int64_t step = 0; step < steps; ++step, row += kStep)
        _mm512_store_si512(row, line < lines.count
                                    ? _mm512_maskz_loadu_epi16(first_of(lines.depths - step * kRow), from + step * kRow)
                                    : _mm512_setzero_si512());
    }
    return;
  }
  for (std::int64_t together = 0; together < panels; together += kTogether)
    for (std::int64_t step = 0; step < steps; ++step)
      for (std::int64_t panel = together; panel < std::min(panels, together + kTogether); ++panel) {
        __m512i low[16];
        __m512i high[16];
        for (std::int64_t i = 0; i < 16; ++i) load_pairs(lines, panel * kWidth, step * kRow + 2 * i, low[i], high[i]);
        std::uint16_t* const tiles = to + (panel * steps + step) * kStep;
        transpose(low);
        store_tile(tiles, low);
        transpose(high);
        store_tile(tiles + kTile, high);
      }
}

// Packs the right operand: the rows of a tile are pairs of depths.
void pack_right(const Lines& lines, std::uint16_t* to) {
  const std::int64_t steps = (lines.depths + kRow - 1) / kRow;
  const std::int64_t panels = (lines.count + kWidth - 1) / kWidth;
  if (lines.depth == 1) {
    for (std::int64_t half = 0; half < 2 * panels; ++half)
      for (std::int64_t step = 0; step < steps; ++step) {
        __m512i tile[16];
        load_lines(lines, half * 16, step * kRow, tile);
        transpose(tile);
        store_tile(to + (half / 2 * steps + step) * kStep + half % 2 * kTile, tile);
      }
    return;
  }
  for (std::int64_t together = 0; together < panels; together += kTogether)
    for (std::int64_t pair = 0; pair < steps * 16; ++pair)
      for (std::int64_t panel = together; panel < std::min(panels, together + kTogether); ++panel) {
        __m512i low;
        __m512i high;
        load_pairs(lines, panel * kWidth, 2 * pair, low, high);
        std::uint16_t* const row = to + (panel * steps + pair / 16) * kStep + pair % 16 * kRow;
        _mm512_store_si512(row, low);
        _mm512_store_si512(row + kTile, high);
      }
}

// ---- the product --------------------------------------------------------------------------------------------------------------

// The destination of a 32 x 32 block of sums.
struct Target {
  void* out = nullptr;
  std::int64_t stride = 0;
  bool rounds = false;          // to bf16
  bool streams = false;         // writes complete cache lines past the caches
  const float* adds = nullptr;  // values to add to the sums, with a separate stride
  std::int64_t adds_stride = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// Prefetches rows that will be written soon.
void fetch(const Target& target, std::int64_t from, std::int64_t to) {
  const std::int64_t bytes = target.rounds ? 2 : 4;
  for (std::int64_t i = from; i < std::min(to, target.rows); ++i) {
    char* const row = static_cast<char*>(target.out) + i * target.stride * bytes;
    __builtin_prefetch(row, 1);
    __builtin_prefetch(row + kWidth * bytes - 1, 1);
  }
}

// 16 elements of a row, and the next 16.
struct Halves {
  __m512 low;
  __m512 high;
};
void write_row(const Target& target, std::int64_t i, __mmask32 mask, const Halves& sums) {
  if (target.rounds) {
    auto* const row = static_cast<std::uint16_t*>(target.out) + i * target.stride;
    const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(sums.high, sums.low));
    if (target.streams) return _mm512_stream_si512(reinterpret_cast<__m512i*>(row), both);
    return _mm512_mask_storeu_epi16(row, mask, both);
  }
  auto* const row = static_cast<float*>(target.out) + i * target.stride;
  if (target.streams) {
    _mm512_stream_ps(row, sums.low);
    _mm512_stream_ps(row + 16, sums.high);
  } else {
    _mm512_mask_storeu_ps(row, static_cast<__mmask16>(mask), sums.low);
    _mm512_mask_storeu_ps(row + 16, static_cast<__mmask16>(mask >> 16), sums.high);
  }
}
void write(const Target& target, const float* sums) {
  const __mmask32 mask = first_of(target.columns);
  for (std::int64_t i = 0; i < target.rows; ++i) {
    Halves row{_mm512_load_ps(sums + i * kWidth), _mm512_load_ps(sums + i * kWidth + 16)};
    if (target.adds != nullptr) {
      const float* const adds = target.adds + i * target.adds_stride;
      row.low = _mm512_add_ps(row.low, _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), adds));
      row.high = _mm512_add_ps(row.high, _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), adds + 16));
    }
    write_row(target, i, mask, row);
  }
}

// Sums 32 x 32 elements over some steps of depth, starting from `before` if it is not null. The sums stay in the tiles.
// Meanwhile it prefetches the rows of `target` (if given) a few at a time, because prefetching all of them together
// would occupy all buffers of the first-level cache.
void multiply_panels(const std::uint16_t* left, const std::uint16_t* right, std::int64_t steps, const float* before,
                     const Target* target) {
  order_tile_accesses();
  if (before == nullptr) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, before, kSumsBytes);
    _tile_loadd(1, before + 16, kSumsBytes);
    _tile_loadd(2, before + 16 * kWidth, kSumsBytes);
    _tile_loadd(3, before + 16 * kWidth + 16, kSumsBytes);
  }
  const std::int64_t rows = target == nullptr ? 0 : (kWidth + steps - 1) / steps;
  for (std::int64_t step = 0; step < steps; ++step, left += kStep, right += kStep) {
    if (rows > 0) fetch(*target, step * rows, (step + 1) * rows);
    _tile_loadd(6, right, 64);
    _tile_loadd(4, left, 64);
    _tile_loadd(7, right + kTile, 64);
    _tile_loadd(5, left + kTile, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}
void store_sums(float* to) {
  _tile_stored(0, to, kSumsBytes);
  _tile_stored(1, to + 16, kSumsBytes);
  _tile_stored(2, to + 16 * kWidth, kSumsBytes);
  _tile_stored(3, to + 16 * kWidth + 16, kSumsBytes);
  order_tile_accesses();
}

struct Blocks {
  std::int64_t depth, rows, columns;
  bool keeps_sums;        // in f32, to be rounded later
  std::int64_t all_rows;  // rows for which the right operand is packed
  explicit Blocks(const TileProductArgs& args) : depth(part_of(args.k, kDepth, kRow)) {
    keeps_sums = args.rounds && args.k > depth;
    all_rows = keeps_sums ? part_of(args.m, kKept, kWidth) : args.m;
    rows = part_of(std::min(args.m, all_rows), std::max(kWidth, kLeft / depth), kWidth);
    columns = part_of(args.n, keeps_sums ? kKept : std::max(kWidth, kRight / depth), kWidth);
  }
  [[nodiscard]] std::int64_t left() const { return rows * depth; }
  [[nodiscard]] std::int64_t right() const { return columns * depth; }
  // Returns the floats of one panel of columns, between two parts of the depth.
  [[nodiscard]] std::int64_t partial() const { return depth > kSteps * kRow ? rows * kWidth : 0; }
  [[nodiscard]] std::int64_t sums() const { return keeps_sums ? all_rows * columns : 0; }
  [[nodiscard]] std::int64_t bytes() const { return 2 * (left() + right()) + 4 * (partial() + sums()); }
};

// Results larger than the second-level cache bypass it, if their rows are complete cache lines.
bool streams_result(const TileProductArgs& args) {
  constexpr std::int64_t kLarge = 2 << 20;
  const std::int64_t bytes = args.rounds ? 2 : 4;
  const bool is_line_aligned =
      reinterpret_cast<std::uintptr_t>(args.out) % 64 == 0 && args.out_stride * bytes % 64 == 0;
  return is_line_aligned && args.m * args.n * bytes > kLarge;
}

struct Block {
  std::int64_t m, n, k, rows, columns, depths;
  float* sums;  // the sums of the block before rounding; null: they are in `out`
  std::int64_t sums_stride;
  bool streams;
};

// Returns the destination of a 32 x 32 part of the block, and the values to add to it.
Target target_of(const TileProductArgs& args, const Block& block, std::int64_t i, std::int64_t j) {
  const bool is_last = block.k + block.depths == args.k;
  const std::int64_t at = (block.m + i) * args.out_stride + block.n + j;
  Target target;
  target.rows = std::min(kWidth, block.rows - i);
  target.columns = std::min(kWidth, block.columns - j);
  float* sums = nullptr;
  if (block.sums != nullptr) sums = block.sums + i * block.sums_stride + j;
  if (!args.rounds) sums = static_cast<float*>(args.out) + at;
  target.adds_stride = block.sums != nullptr ? block.sums_stride : args.out_stride;
  if (block.k > 0 || args.accumulates) target.adds = sums;
  target.rounds = args.rounds && is_last;
  target.out = target.rounds ? static_cast<std::uint16_t*>(args.out) + at : static_cast<void*>(sums);
  target.stride = target.rounds ? args.out_stride : target.adds_stride;
  target.streams = block.streams && is_last && target.adds != target.out && target.columns == kWidth;
  return target;
}

// Multiplies packed operands. For some steps of depth, a panel of columns stays in the first-level cache for all rows.
void multiply_block(const TileProductArgs& args, const Block& block, const std::uint16_t* left,
                    const std::uint16_t* right, float* partial) {
  alignas(64) float last[kWidth * kWidth];
  const std::int64_t steps = (block.depths + kRow - 1) / kRow;
  for (std::int64_t j = 0; j < block.columns; j += kWidth)
    for (std::int64_t step = 0; step < steps; step += kSteps) {
      const bool is_last = step + kSteps >= steps;
      const std::uint16_t* const columns = right + (j / kWidth * steps + step) * kStep;
      for (std::int64_t i = 0; i < block.rows; i += kWidth) {
        const Target target = target_of(args, block, i, j);
        float* const between = partial + i * kWidth;
        multiply_panels(left + (i / kWidth * steps + step) * kStep, columns, std::min(kSteps, steps - step),
                        step > 0 ? between : nullptr, is_last && !target.streams ? &target : nullptr);
        store_sums(is_last ? last : between);
        if (is_last) write(target, last);
      }
    }
}

}  // namespace

std::int64_t tile_product_workspace(const TileProductArgs& args) { return Blocks(args).bytes(); }

void tile_product(const TileProductArgs& args) {
  const Blocks blocks(args);
  auto* const left = reinterpret_cast<std::uint16_t*>(args.workspace);
  std::uint16_t* const right = left + blocks.left();
  auto* const partial = reinterpret_cast<float*>(right + blocks.right());
  float* const sums = blocks.keeps_sums ? partial + blocks.partial() : nullptr;
  const bool streams = streams_result(args);
  const AmxRegisters registers;
  const auto multiply = [&](std::int64_t first_row, std::int64_t end_row, std::int64_t n, std::int64_t k) {
    const std::int64_t columns = std::min(blocks.columns, args.n - n);
    const std::int64_t depths = std::min(blocks.depth, args.k - k);
    pack_right({args.b + n * args.b_n + k * args.b_k, args.b_n, args.b_k, columns, depths}, right);
    for (std::int64_t m = first_row; m < end_row; m += blocks.rows) {
      const std::int64_t rows = std::min(blocks.rows, end_row - m);
      pack_left({args.a + m * args.a_m + k * args.a_k, args.a_m, args.a_k, rows, depths}, left);
      float* const kept = sums == nullptr ? nullptr : sums + (m - first_row) * blocks.columns;
      multiply_block(args, {m, n, k, rows, columns, depths, kept, blocks.columns, streams}, left, right, partial);
    }
  };
  for (std::int64_t m = 0; m < args.m; m += blocks.all_rows)
    for (std::int64_t n = 0; n < args.n; n += blocks.columns)
      for (std::int64_t k = 0; k < args.k; k += blocks.depth) multiply(m, std::min(args.m, m + blocks.all_rows), n, k);
  _mm_sfence();
}

}  // namespace tessera::kernels
