// SPDX-License-Identifier: Apache-2.0
#include "metrics/fma_loops.h"

#include <algorithm>
#include <iterator>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tessera {
namespace {

// Enough chains to hide the latency of two pipes (4 or 5 cycles each), and few enough to stay in registers.
constexpr int kChains = 12;

// Each loop performs rounds * kChains vector multiply-adds. Each depends on the previous one in its chain. The returned
// sum keeps the compiler from removing them.
template <class T>
double generic(double given, std::int64_t rounds) {
  const T factor = static_cast<T>(given);
  T chain[kChains] = {};
  for (std::int64_t round = 0; round < rounds; ++round)
    for (T& c : chain) c = c * factor + factor;
  T total = 0;
  for (const T c : chain) total += c;
  return static_cast<double>(total);
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) double avx2_f32(double given, std::int64_t rounds) {
  const auto factor = static_cast<float>(given);
  const __m256 f = _mm256_set1_ps(factor);
  __m256 chain[kChains];
  for (__m256& c : chain) c = f;
  for (std::int64_t round = 0; round < rounds; ++round)
#pragma GCC unroll 12
    for (__m256& c : chain) c = _mm256_fmadd_ps(c, f, f);
  for (int i = 1; i < kChains; ++i) chain[0] = _mm256_add_ps(chain[0], chain[i]);
  return _mm256_cvtss_f32(chain[0]);
}

__attribute__((target("avx512f"))) double avx512_f32(double given, std::int64_t rounds) {
  const auto factor = static_cast<float>(given);
  const __m512 f = _mm512_set1_ps(factor);
  __m512 chain[kChains];
  for (__m512& c : chain) c = f;
  for (std::int64_t round = 0; round < rounds; ++round)
#pragma GCC unroll 12
    for (__m512& c : chain) c = _mm512_fmadd_ps(c, f, f);
  for (int i = 1; i < kChains; ++i) chain[0] = _mm512_add_ps(chain[0], chain[i]);
  return _mm512_cvtss_f32(chain[0]);
}

__attribute__((target("avx2,fma"))) double avx2_f64(double factor, std::int64_t rounds) {
  const __m256d f = _mm256_set1_pd(factor);
  __m256d chain[kChains];
  for (__m256d& c : chain) c = f;
  for (std::int64_t round = 0; round < rounds; ++round)
#pragma GCC unroll 12
    for (__m256d& c : chain) c = _mm256_fmadd_pd(c, f, f);
  for (int i = 1; i < kChains; ++i) chain[0] = _mm256_add_pd(chain[0], chain[i]);
  return _mm256_cvtsd_f64(chain[0]);
}

__attribute__((target("avx512f"))) double avx512_f64(double factor, std::int64_t rounds) {
  const __m512d f = _mm512_set1_pd(factor);
  __m512d chain[kChains];
  for (__m512d& c : chain) c = f;
  for (std::int64_t round = 0; round < rounds; ++round)
#pragma GCC unroll 12
    for (__m512d& c : chain) c = _mm512_fmadd_pd(c, f, f);
  for (int i = 1; i < kChains; ++i) chain[0] = _mm512_add_pd(chain[0], chain[i]);
  return _mm512_cvtsd_f64(chain[0]);
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) double avx512_bf16(double given, std::int64_t rounds) {
  const auto factor = static_cast<float>(given);
  const __m512bh f = _mm512_cvtne2ps_pbh(_mm512_set1_ps(factor), _mm512_set1_ps(factor));
  __m512 chain[kChains];
  for (__m512& c : chain) c = _mm512_set1_ps(factor);
  for (std::int64_t round = 0; round < rounds; ++round)
#pragma GCC unroll 12
    for (__m512& c : chain) c = _mm512_dpbf16_ps(c, f, f);
  for (int i = 1; i < kChains; ++i) chain[0] = _mm512_add_ps(chain[0], chain[i]);
  return _mm512_cvtss_f32(chain[0]);
}

// Linux provides the tile state only to processes that request it.
bool multiplies_tiles() {
  constexpr unsigned kBf16AndTiles = 1U << 22 | 1U << 24;
  constexpr int kAskForState = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBf16AndTiles) != kBf16AndTiles) return false;
  return syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
}

// Tiles of 16 rows of 64 bytes: six hold f32 sums, two hold bf16 factors.
__attribute__((target("amx-tile,amx-bf16"))) double amx_bf16(double given, std::int64_t rounds) {
  const auto factor = static_cast<float>(given);
  constexpr int kTiles = 8;
  constexpr int kRows = 16;
  constexpr int kRowBytes = 64;
  struct alignas(64) {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } configuration;
  std::fill_n(configuration.row_bytes, kTiles, static_cast<std::uint16_t>(kRowBytes));
  std::fill_n(configuration.rows, kTiles, static_cast<std::uint8_t>(kRows));
  _tile_loadconfig(&configuration);
  float sums[kRows * kRowBytes / 4];
  std::fill_n(sums, kRows * kRowBytes / 4, factor);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_loadd(6, sums, kRowBytes);
  _tile_loadd(7, sums, kRowBytes);
  static_assert(kChains == 12);
  for (std::int64_t round = 0; round < 2 * rounds; ++round) {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  }
  _tile_stored(0, sums, kRowBytes);
  _tile_release();
  return sums[0];
}
#endif

constexpr std::int64_t kRounds = 20'000;
constexpr std::int64_t kTileRounds = 1'000;  // a product of tiles takes 16 cycles

#if defined(__x86_64__)
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }
bool has_avx512() { return __builtin_cpu_supports("avx512f") != 0; }
bool has_avx512_bf16() { return __builtin_cpu_supports("avx512bf16") != 0; }
#endif

constexpr FmaLoop kLoops[] = {
#if defined(__x86_64__)
    {"amx bf16", DType::kBF16, multiplies_tiles, amx_bf16, 16 * 16 * 32, kTileRounds},
    {"avx512 bf16", DType::kBF16, has_avx512_bf16, avx512_bf16, 32, kRounds},
    {"avx512 f32", DType::kF32, has_avx512, avx512_f32, 16, kRounds},
    {"avx2 f32", DType::kF32, has_avx2, avx2_f32, 8, kRounds},
    {"avx512 f64", DType::kF64, has_avx512, avx512_f64, 8, kRounds},
    {"avx2 f64", DType::kF64, has_avx2, avx2_f64, 4, kRounds},
#endif
    {"generic f32", DType::kF32, [] { return true; }, generic<float>, 1, kRounds},
    {"generic f64", DType::kF64, [] { return true; }, generic<double>, 1, kRounds},
};

}  // namespace

double FmaLoop::flops() const { return 2.0 * multiply_adds * kChains * static_cast<double>(rounds); }

std::span<const FmaLoop> fma_loops() { return kLoops; }

}  // namespace tessera
