// SPDX-License-Identifier: Apache-2.0
// Vectors, packing, and products of small blocks for the attention kernels. Only for the sources of a kernel set.
//
// Products run over *words* along their depth: a word is one number, or a pair of bf16 numbers, which one instruction
// multiplies and adds. attention_amx.h has the products on tile registers.
#pragma once

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include "kernels/simd/scalar_math.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

#if defined(__AVX512F__)
constexpr std::int64_t kVectorBytes = 64;
constexpr std::int64_t kTileRows = 8;
#elif defined(__AVX2__)
constexpr std::int64_t kVectorBytes = 32;
constexpr std::int64_t kTileRows = 4;
#else
constexpr std::int64_t kVectorBytes = 16;
constexpr std::int64_t kTileRows = 4;
#endif

template <class Number>
struct Lanes;
// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot be in parentheses
#define TESSERA_LANES(Number)                                                                             \
  template <>                                                                                             \
  struct Lanes<Number> {                                                                                  \
    static constexpr std::int64_t kCount = kVectorBytes / static_cast<std::int64_t>(sizeof(Number));      \
    using Vector = Number __attribute__((vector_size(kVectorBytes)));                                     \
    using Loose = Number __attribute__((vector_size(kVectorBytes), aligned(alignof(Number)), may_alias)); \
  };
// NOLINTEND(bugprone-macro-parentheses)
TESSERA_LANES(float)
TESSERA_LANES(double)
TESSERA_LANES(std::uint32_t)
#undef TESSERA_LANES
template <class Number>
using Vec = typename Lanes<Number>::Vector;

template <class Number>
TESSERA_INLINE Vec<Number> load_vector(const Number* from) {
  return *reinterpret_cast<const typename Lanes<Number>::Loose*>(from);
}
TESSERA_INLINE Vec<float> widened_lanes(const BFloat16* from) {
  using Narrow = std::uint16_t __attribute__((vector_size(kVectorBytes / 2), aligned(2), may_alias));
  return reinterpret_cast<Vec<float>>(
      __builtin_convertvector(*reinterpret_cast<const Narrow*>(from), Vec<std::uint32_t>) << 16);
}
template <class Number>
TESSERA_INLINE void store_vector(Number* to, Vec<Number> value) {
  *reinterpret_cast<typename Lanes<Number>::Loose*>(to) = value;
}
template <class Number>
TESSERA_INLINE Vec<Number> all_lanes(Number value) {
  return value - Vec<Number>{};
}
template <class Number>
TESSERA_INLINE Vec<Number> larger_lanes(Vec<Number> a, Vec<Number> b) {
  return a > b ? a : b;
}
template <class Number>
TESSERA_INLINE Vec<Number> smaller_lanes(Vec<Number> a, Vec<Number> b) {
  return a < b ? a : b;
}

// exp of numbers up to 88; 0 below -87, so that no result is denormal.
TESSERA_INLINE Vec<float> exp_lanes(Vec<float> x) {
  using Bits = std::int32_t __attribute__((vector_size(kVectorBytes)));
  const Vec<float> c = larger_lanes<float>(all_lanes(-87.0F), x);     // keeps NaN
  const Vec<float> shifted = c * 1.44269504088896341F + 12582912.0F;  // rounds to an integer
  const Vec<float> n = shifted - 12582912.0F;
  const Vec<float> r = (c - n * 0.693359375F) + n * 2.12194440e-4F;
  Vec<float> p = all_lanes(1.3981999507e-3F);
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const Bits power = reinterpret_cast<Bits>(shifted) << 23;  // the low bits of `shifted` are the integer
  const auto y = reinterpret_cast<Vec<float>>(reinterpret_cast<Bits>(p) + power);
  return x < -87.0F ? Vec<float>{} : y;
}
TESSERA_INLINE Vec<double> exp_lanes(Vec<double> x) {
  for (std::int64_t i = 0; i < Lanes<double>::kCount; ++i) x[i] = __builtin_exp(x[i]);
  return x;
}

// ---- arithmetic of words ------------------------------------------------------------------------------------------------------

struct NoRegisters {};  // to set up before products

template <class Number>
struct PlainWords {
  using Sum = Number;
  using Word = Number;
  using Registers = NoRegisters;
  static constexpr std::int64_t kPair = 1;
  static constexpr bool kUsesAmx = false;
  static Vec<Sum> multiply_add(Word a, Vec<Word> b, Vec<Sum> sum) { return sum + a * b; }
  template <class Element>
  static Word make(Element first, Element /*second*/) {
    return load(first);
  }
};

#if defined(__AVX512BF16__)
struct PairWords {
  using Sum = float;
  using Word = std::uint32_t;
  using Registers = NoRegisters;
  static constexpr std::int64_t kPair = 2;
  static constexpr bool kUsesAmx = false;
  static Vec<float> multiply_add(Word a, Vec<Word> b, Vec<float> sum) {
    const auto left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a)));
    return reinterpret_cast<Vec<float>>(
        _mm512_dpbf16_ps(reinterpret_cast<__m512>(sum), left, reinterpret_cast<__m512bh>(b)));
  }
  static Word make(BFloat16 first, BFloat16 second) {
    return static_cast<Word>(first.bits) | static_cast<Word>(second.bits) << 16;
  }
  // Rounds two lines of numbers to words.
  static Vec<Word> rounded(Vec<float> first, Vec<float> second) {
    const auto both = reinterpret_cast<__m512i>(
        _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(second), reinterpret_cast<__m512>(first)));
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i order = _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32(0x10001)),
                                           _mm512_set1_epi32(0x100000));  // lane i of the first, then of the second
    return reinterpret_cast<Vec<Word>>(_mm512_permutexvar_epi16(order, both));
  }
  // Rounds adjacent numbers to adjacent words.
  static void store_rounded(Word* to, Vec<float> x) {
    const auto bits = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(x)));
    _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to), bits);
  }
};
#endif

// ---- products -----------------------------------------------------------------------------------------------------------------

// out[i, j] = sum over k of a[i*kRow + k*kDepth] b[k*b_stride + j], or added to it, for `depth` words.
template <class Math>
struct Product {
  const typename Math::Word* a = nullptr;
  const typename Math::Word* b = nullptr;
  typename Math::Sum* out = nullptr;
  std::int64_t rows = 0, columns = 0, depth = 0;  // rows and columns may be exceeded up to a tile
  std::int64_t b_stride = 0, out_stride = 0;
  bool adds = false;
  std::int64_t a_stride = 0;  // words between the rows of `a`; only for products on tile registers
};

template <class Math, std::int64_t kRow, std::int64_t kDepth, std::int64_t kVectors>
TESSERA_INLINE void multiply_tile(const Product<Math>& p, std::int64_t i, std::int64_t j) {
  using Sum = typename Math::Sum;
  constexpr std::int64_t kLanes = Lanes<Sum>::kCount;
  Vec<Sum> sums[kTileRows][kVectors] = {};
  const auto* a = p.a + i * kRow;
  const auto* b = p.b + j;
#pragma GCC unroll 2
  for (std::int64_t k = 0; k < p.depth; ++k) {
    Vec<typename Math::Word> right[kVectors];
#pragma GCC unroll 4
    for (std::int64_t v = 0; v < kVectors; ++v) right[v] = load_vector(b + v * kLanes);
#pragma GCC unroll 16
    for (std::int64_t r = 0; r < kTileRows; ++r)
#pragma GCC unroll 4
      for (std::int64_t v = 0; v < kVectors; ++v) sums[r][v] = Math::multiply_add(a[r * kRow], right[v], sums[r][v]);
    a += kDepth;
    b += p.b_stride;
  }
#pragma GCC unroll 16
  for (std::int64_t r = 0; r < kTileRows; ++r)
#pragma GCC unroll 4
    for (std::int64_t v = 0; v < kVectors; ++v) {
      Sum* const to = p.out + (i + r) * p.out_stride + j + v * kLanes;
      store_vector(to, p.adds ? load_vector(to) + sums[r][v] : sums[r][v]);
    }
}

template <class Math, std::int64_t kRow, std::int64_t kDepth>
void multiply(const Product<Math>& p) {
  if constexpr (Math::kUsesAmx) {
    multiply_on_amx(p);  // attention_amx.h
  } else {
    constexpr std::int64_t kLanes = Lanes<typename Math::Sum>::kCount;
    std::int64_t j = 0;
    for (; j + kLanes < p.columns; j += 2 * kLanes)
      for (std::int64_t i = 0; i < p.rows; i += kTileRows) multiply_tile<Math, kRow, kDepth, 2>(p, i, j);
    if (j < p.columns)
      for (std::int64_t i = 0; i < p.rows; i += kTileRows) multiply_tile<Math, kRow, kDepth, 1>(p, i, j);
  }
}

// ---- packing ------------------------------------------------------------------------------------------------------------------

// A matrix in an array of the given type.
template <class Element>
struct Matrix {
  const Element* from = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::int64_t row = 0, column = 0;  // strides
  [[nodiscard]] Element at(std::int64_t i, std::int64_t j) const {
    return i < rows && j < columns ? from[i * row + j * column] : Element{};
  }
};

// out[k, i] holds the word of row i at column k: `width` rows from `first` on, zeros past the end.
template <class Math, std::int64_t kWidth, class Element>
void pack_turned(const Matrix<Element>& m, std::int64_t first, typename Math::Word* out) {
  const std::int64_t present = m.rows - first < kWidth ? m.rows - first : kWidth;
  const std::int64_t words = m.columns / Math::kPair;
  constexpr std::int64_t kTogether = 16;  // rows whose cache lines are read together
  for (std::int64_t i = 0; i < present; i += kTogether) {
    const std::int64_t end = i + kTogether < present ? i + kTogether : present;
    for (std::int64_t k = 0; k < words; ++k)
      for (std::int64_t r = i; r < end; ++r) {
        const Element* const from = m.from + (first + r) * m.row + Math::kPair * k * m.column;
        out[k * kWidth + r] = Math::make(from[0], Math::kPair == 2 ? from[m.column] : Element{});
      }
  }
  for (std::int64_t k = words; Math::kPair * k < m.columns; ++k)
    for (std::int64_t r = 0; r < present; ++r)
      out[k * kWidth + r] = Math::make(m.at(first + r, Math::kPair * k), m.at(first + r, Math::kPair * k + 1));
  for (std::int64_t k = 0; Math::kPair * k < m.columns; ++k)
    for (std::int64_t r = present; r < kWidth; ++r) out[k * kWidth + r] = Math::make(Element{}, Element{});
}

// out[i, j] holds the word of column j at rows i*kPair...: `words` rows of words with `stride` columns, zeros past the
// end.
template <class Math, class Element>
void pack_rows(const Matrix<Element>& m, std::int64_t words, std::int64_t stride, typename Math::Word* out) {
  for (std::int64_t i = 0; i < words; ++i) {
    const std::int64_t row = i * Math::kPair;
    std::int64_t j = 0;
    if (row + Math::kPair <= m.rows) {
      const Element* const from = m.from + row * m.row;
      const Element* const next = from + (Math::kPair - 1) * m.row;
      if (m.column == 1)
        for (; j < m.columns; ++j) out[i * stride + j] = Math::make(from[j], next[j]);
      else
        for (; j < m.columns; ++j) out[i * stride + j] = Math::make(from[j * m.column], next[j * m.column]);
    }
    for (; j < stride; ++j) out[i * stride + j] = Math::make(m.at(row, j), m.at(row + Math::kPair - 1, j));
  }
}

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
