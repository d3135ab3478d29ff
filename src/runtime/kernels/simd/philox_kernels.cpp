// SPDX-License-Identifier: Apache-2.0
// Rounds of a counter-based generator, for dropout and initial values. Written with intrinsics, because compilers turn
// products of the lower halves of words into full products.
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <type_traits>

#include "kernels/simd/registration.h"
#include "kernels/simd/scalar_math.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

// 64-bit words whose lower halves are multiplied.
#if defined(__AVX512F__)
struct Words {
  __m512i bits;
  static constexpr std::int64_t kCount = 8;
  TESSERA_INLINE Words load(const std::uint32_t* from) {
    return {_mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
  }
  TESSERA_INLINE Words all(std::uint32_t x) { return {_mm512_set1_epi64(x)}; }
  TESSERA_INLINE Words product(Words a, Words b) { return {_mm512_mul_epu32(a.bits, b.bits)}; }
  TESSERA_INLINE Words upper(Words a) { return {_mm512_srli_epi64(a.bits, 32)}; }
  TESSERA_INLINE Words mixed(Words a, Words b, Words c) {
    constexpr int kXor = 0x96;
    return {_mm512_ternarylogic_epi64(a.bits, b.bits, c.bits, kXor)};
  }
  TESSERA_INLINE void store(std::uint32_t* to, Words a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi64_epi32(a.bits));
  }
};
#elif defined(__AVX2__)
struct Words {
  __m256i bits;
  static constexpr std::int64_t kCount = 4;
  TESSERA_INLINE Words load(const std::uint32_t* from) {
    return {_mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
  }
  TESSERA_INLINE Words all(std::uint32_t x) { return {_mm256_set1_epi64x(x)}; }
  TESSERA_INLINE Words product(Words a, Words b) { return {_mm256_mul_epu32(a.bits, b.bits)}; }
  TESSERA_INLINE Words upper(Words a) { return {_mm256_srli_epi64(a.bits, 32)}; }
  TESSERA_INLINE Words mixed(Words a, Words b, Words c) {
    return {_mm256_xor_si256(a.bits, _mm256_xor_si256(b.bits, c.bits))};
  }
  TESSERA_INLINE void store(std::uint32_t* to, Words a) {
    const __m256i lower = _mm256_permutevar8x32_epi32(a.bits, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(lower));
  }
};
#else
struct Words {
  std::uint64_t bits;
  static constexpr std::int64_t kCount = 1;
  TESSERA_INLINE Words load(const std::uint32_t* from) { return {*from}; }
  TESSERA_INLINE Words all(std::uint32_t x) { return {x}; }
  TESSERA_INLINE Words product(Words a, Words b) { return {(a.bits & 0xffffffffU) * b.bits}; }
  TESSERA_INLINE Words upper(Words a) { return {a.bits >> 32}; }
  TESSERA_INLINE Words mixed(Words a, Words b, Words c) { return {a.bits ^ b.bits ^ c.bits}; }
  TESSERA_INLINE void store(std::uint32_t* to, Words a) { *to = static_cast<std::uint32_t>(a.bits); }
};
#endif

// Computes all rounds in registers, for a few vectors of counters at a time.
template <int kVectors>
TESSERA_INLINE void run_rounds(const PhiloxArgs& args, const std::uint32_t* from_low, const std::uint32_t* from_high,
                               std::uint32_t* to) {
  Words low[kVectors];
  Words high[kVectors];
  const Words multiplier = Words::all(args.multiplier);
  for (int v = 0; v < kVectors; ++v) {
    low[v] = Words::load(from_low + v * Words::kCount);
    high[v] = Words::load(from_high + v * Words::kCount);
  }
  for (int round = 0; round < args.rounds; ++round) {
    const Words key = Words::all(args.keys[round]);
    for (int v = 0; v < kVectors; ++v) {
      const Words wide = Words::product(low[v], multiplier);
      low[v] = Words::mixed(Words::upper(wide), high[v], key);
      high[v] = wide;
    }
  }
  for (int v = 0; v < kVectors; ++v) Words::store(to + v * Words::kCount, low[v]);
}

void run_philox_rounds(const PhiloxArgs& args) {
  constexpr int kVectors = 4;
  constexpr std::int64_t kBlock = kVectors * Words::kCount;
  std::int64_t i = 0;
  for (; i + kBlock <= args.count; i += kBlock) run_rounds<kVectors>(args, args.low + i, args.high + i, args.out + i);
  if (i == args.count) return;
  std::uint32_t low[kBlock] = {};
  std::uint32_t high[kBlock] = {};
  for (std::int64_t k = i; k < args.count; ++k) {
    low[k - i] = args.low[k];
    high[k - i] = args.high[k];
  }
  run_rounds<kVectors>(args, low, high, low);
  for (std::int64_t k = i; k < args.count; ++k) args.out[k] = low[k - i];
}

// Counts in the integer type itself, which wraps in the same way as converting the number.
template <class T>
void count_up(void* to, std::int64_t first, std::int64_t count) {
  T* const out = static_cast<T*>(to);
  if constexpr (is_float(kDTypeOf<T>)) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(first + i);
  } else {
    using Unsigned = std::make_unsigned_t<T>;
    const auto start = static_cast<Unsigned>(first);
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = static_cast<T>(static_cast<Unsigned>(start + static_cast<Unsigned>(i)));
  }
}

}  // namespace

void add_counter(KernelSet& set) {
  set.philox_rounds = run_philox_rounds;
  for_each_dtype([&]<class T>() {
    if constexpr (is_integer(kDTypeOf<T>) || kDTypeOf<T> == DType::kF32 || kDTypeOf<T> == DType::kF64)
      set.count_up[static_cast<int>(kDTypeOf<T>)] = count_up<T>;
  });
}

}  // namespace tessera::kernels::TESSERA_ISA
