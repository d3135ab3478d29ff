// SPDX-License-Identifier: Apache-2.0
// Products of bf16 on tile registers, and the packing of their operands, for the attention kernels. Only for kernel sets
// with AMX.
//
// A left operand has the words of a row next to each other, a right operand has rows of words (pairs of depths). So the
// sums over keys of scores, which are such rows, are made as [column][row].
#pragma once

#include "kernels/simd/amx_registers.h"
#include "kernels/simd/attention_tiles.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

struct AmxWords : PairWords {
  using Registers = AmxRegisters;
  static constexpr bool kUsesAmx = true;
};

constexpr std::int64_t kAmxWords = 16;  // words in a row of a tile register; also its rows

// ---- products -----------------------------------------------------------------------------------------------------------------

// Sums kRows x kColumns tiles from row i and column j on.
template <int kRows, int kColumns>
TESSERA_INLINE void multiply_on_amx(const Product<AmxWords>& p, std::int64_t i, std::int64_t j) {
  const auto stride = static_cast<std::size_t>(p.out_stride) * sizeof(float);
  float* const out = p.out + i * p.out_stride + j;
  float* const below = out + kAmxWords * p.out_stride;
  if (p.adds) {
    _tile_loadd(0, out, stride);
    if constexpr (kColumns == 2) _tile_loadd(1, out + kAmxWords, stride);
    if constexpr (kRows == 2) _tile_loadd(2, below, stride);
    if constexpr (kRows * kColumns == 4) _tile_loadd(3, below + kAmxWords, stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const auto a_bytes = static_cast<std::size_t>(p.a_stride) * sizeof(std::uint32_t);
  const auto b_bytes = static_cast<std::size_t>(p.b_stride) * sizeof(std::uint32_t);
  const std::uint32_t* a = p.a + i * p.a_stride;
  const std::uint32_t* b = p.b + j;
  for (std::int64_t k = 0; k < p.depth; k += kAmxWords, a += kAmxWords, b += kAmxWords * p.b_stride) {
    _tile_loadd(6, b, b_bytes);
    _tile_loadd(4, a, a_bytes);
    if constexpr (kColumns == 2) _tile_loadd(7, b + kAmxWords, b_bytes);
    if constexpr (kRows == 2) _tile_loadd(5, a + kAmxWords * p.a_stride, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kColumns == 2) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kRows == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kRows * kColumns == 4) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, out, stride);
  if constexpr (kColumns == 2) _tile_stored(1, out + kAmxWords, stride);
  if constexpr (kRows == 2) _tile_stored(2, below, stride);
  if constexpr (kRows * kColumns == 4) _tile_stored(3, below + kAmxWords, stride);
}

template <int kRows>
TESSERA_INLINE void multiply_rows_on_amx(const Product<AmxWords>& p, std::int64_t i) {
  std::int64_t j = 0;
  for (; j + kAmxWords < p.columns; j += 2 * kAmxWords) multiply_on_amx<kRows, 2>(p, i, j);
  if (j < p.columns) multiply_on_amx<kRows, 1>(p, i, j);
}

// Rows and columns may be exceeded up to 16, and the depth is a multiple of 16 words.
inline void multiply_on_amx(const Product<AmxWords>& p) {
  order_tile_accesses();
  std::int64_t i = 0;
  for (; i + kAmxWords < p.rows; i += 2 * kAmxWords) multiply_rows_on_amx<2>(p, i);
  if (i < p.rows) multiply_rows_on_amx<1>(p, i);
  order_tile_accesses();
}

// ---- packing ------------------------------------------------------------------------------------------------------------------

using Tile = __m512i[16];

// A mask of the first `count` of `most` lanes.
TESSERA_INLINE std::uint32_t first_lanes(std::int64_t count, std::int64_t most) {
  return count <= 0 ? 0 : static_cast<std::uint32_t>((std::uint64_t{1} << (count < most ? count : most)) - 1);
}

// The 16 words of row i from word k on.
TESSERA_INLINE __m512i words_of_row(const Matrix<BFloat16>& m, std::int64_t i, std::int64_t k) {
  const std::int64_t column = 2 * k;
  if (m.column == 1) {
    const std::uint32_t present = i < m.rows ? first_lanes(m.columns - column, 2 * kAmxWords) : 0;
    return _mm512_maskz_loadu_epi16(present, m.from + i * m.row + column);
  }
  alignas(64) std::uint32_t words[kAmxWords];
  for (std::int64_t w = 0; w < kAmxWords; ++w)
    words[w] = PairWords::make(m.at(i, column + 2 * w), m.at(i, column + 2 * w + 1));
  return _mm512_load_si512(words);
}
// The words of the rows i and i + 1 in the 16 columns from j on.
TESSERA_INLINE __m512i words_of_columns(const Matrix<BFloat16>& m, std::int64_t i, std::int64_t j) {
  if (m.column == 1) {
    const auto load_row = [&](std::int64_t row) {
      const std::uint32_t present = row < m.rows ? first_lanes(m.columns - j, kAmxWords) : 0;
      return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(present), m.from + row * m.row + j));
    };
    return _mm512_or_si512(load_row(i), _mm512_slli_epi32(load_row(i + 1), 16));
  }
  alignas(64) std::uint32_t words[kAmxWords];
  for (std::int64_t w = 0; w < kAmxWords; ++w) words[w] = PairWords::make(m.at(i, j + w), m.at(i + 1, j + w));
  return _mm512_load_si512(words);
}

// A left operand: out[i][k] holds word k of row i. Zeros past the ends.
inline void pack_amx_left(const Matrix<BFloat16>& m, std::int64_t padded_rows, std::int64_t words, std::uint32_t* out) {
  for (std::int64_t i = 0; i < padded_rows; ++i)
    for (std::int64_t k = 0; k < words; k += kAmxWords) _mm512_storeu_si512(out + i * words + k, words_of_row(m, i, k));
}

// A right operand: out[k][i] holds word k of row `first + i`, for `width` rows.
inline void pack_amx_right(const Matrix<BFloat16>& m, std::int64_t first, std::int64_t width, std::int64_t words,
                           std::uint32_t* out) {
  for (std::int64_t i = 0; i < width; i += kAmxWords)
    for (std::int64_t k = 0; k < words; k += kAmxWords) {
      Tile tile;
      for (std::int64_t r = 0; r < kAmxWords; ++r) tile[r] = words_of_row(m, first + i + r, k);
      transpose(tile);
      for (std::int64_t r = 0; r < kAmxWords; ++r) _mm512_storeu_si512(out + (k + r) * width + i, tile[r]);
    }
}

// A left operand whose depth is the row: out[j][k] holds the word of column j at rows `first + 2k` and `first + 2k + 1`,
// for `rows` rows.
inline void pack_amx_columns(const Matrix<BFloat16>& m, std::int64_t first, std::int64_t rows,
                             std::int64_t padded_columns, std::uint32_t* out) {
  const std::int64_t words = rows / 2;
  for (std::int64_t j = 0; j < padded_columns; j += kAmxWords)
    for (std::int64_t k = 0; k < words; k += kAmxWords) {
      Tile tile;
      for (std::int64_t r = 0; r < kAmxWords; ++r) tile[r] = words_of_columns(m, first + 2 * (k + r), j);
      transpose(tile);
      for (std::int64_t r = 0; r < kAmxWords; ++r) _mm512_storeu_si512(out + (j + r) * words + k, tile[r]);
    }
}

// Rounds a block of sums [column][row] to rows of `to`, each multiplied with its factor. A factor of 0 makes zeros.
struct AmxRows {
  const float* sums = nullptr;
  std::int64_t sums_stride = 0;
  std::int64_t rows = 0, columns = 0;
  const float* factors = nullptr;
  BFloat16* to = nullptr;
  std::int64_t to_stride = 0;
};
inline void store_amx_rows(const AmxRows& a) {
  for (std::int64_t i = 0; i < a.rows; i += kAmxWords) {
    const __m512 factors = _mm512_loadu_ps(a.factors + i);
    const __mmask16 present = _mm512_cmp_ps_mask(factors, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    for (std::int64_t j = 0; j < a.columns; j += kAmxWords) {
      Tile tile;
      for (std::int64_t r = 0; r < kAmxWords; ++r) {
        const __m512 sums = _mm512_loadu_ps(a.sums + (j + r) * a.sums_stride + i);
        tile[r] = _mm512_castps_si512(_mm512_maskz_mul_ps(present, sums, factors));
      }
      transpose(tile);
      const auto mask = static_cast<__mmask16>(first_lanes(a.columns - j, kAmxWords));
      for (std::int64_t r = 0; r < kAmxWords && i + r < a.rows; ++r) {
        const auto bits = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_castsi512_ps(tile[r])));
        _mm256_mask_storeu_epi16(a.to + (i + r) * a.to_stride + j, mask, bits);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
