// SPDX-License-Identifier: Apache-2.0
#include "fma_peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tessera::bench {
namespace {

// Chains enough to hide the latency of two pipes (4 or 5 cycles each), few enough to stay in registers.
constexpr int kChains = 12;
constexpr std::int64_t kRounds = 20'000;

// Each loop makes kRounds * kChains multiply-adds of vectors, each depending on the one before in its chain; the sum keeps them alive.
float generic_f32(float factor) {
  float chain[kChains] = {};
  for (std::int64_t round = 0; round < kRounds; ++round)
    for (float& c : chain) c = c * factor + factor;
  float total = 0;
  for (const float c : chain) total += c;
  return total;
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) float avx2_f32(float factor) {
  const __m256 f = _mm256_set1_ps(factor);
  __m256 chain[kChains];
  for (__m256& c : chain) c = f;
  for (std::int64_t round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
    for (__m256& c : chain) c = _mm256_fmadd_ps(c, f, f);
  for (int i = 1; i < kChains; ++i) chain[0] = _mm256_add_ps(chain[0], chain[i]);
  return _mm256_cvtss_f32(chain[0]);
}

__attribute__((target("avx512f"))) float avx512_f32(float factor) {
  const __m512 f = _mm512_set1_ps(factor);
  __m512 chain[kChains];
  for (__m512& c : chain) c = f;
  for (std::int64_t round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
    for (__m512& c : chain) c = _mm512_fmadd_ps(c, f, f);
  for (int i = 1; i < kChains; ++i) chain[0] = _mm512_add_ps(chain[0], chain[i]);
  return _mm512_cvtss_f32(chain[0]);
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) float avx512_bf16(float factor) {
  const __m512bh f = _mm512_cvtne2ps_pbh(_mm512_set1_ps(factor), _mm512_set1_ps(factor));
  __m512 chain[kChains];
  for (__m512& c : chain) c = _mm512_set1_ps(factor);
  for (std::int64_t round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
    for (__m512& c : chain) c = _mm512_dpbf16_ps(c, f, f);
  for (int i = 1; i < kChains; ++i) chain[0] = _mm512_add_ps(chain[0], chain[i]);
  return _mm512_cvtss_f32(chain[0]);
}

// Linux hands out the tiles' state only to processes that ask for it.
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

// Tiles of 16 rows of 64 bytes: f32 sums in six of them, bf16 factors in two.
__attribute__((target("amx-tile,amx-bf16"))) float amx_bf16(float factor) {
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
  for (std::int64_t round = 0; round < 2 * kRounds; ++round) {
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

struct Kernel {
  const char* name;
  bool is_bf16;
  bool (*runs_here)();
  float (*loop)(float);
  int multiply_adds;  // of one instruction
};

constexpr Kernel kKernels[] = {
#if defined(__x86_64__)
    {"amx bf16", true, multiplies_tiles, amx_bf16, 16 * 16 * 32},
    {"avx512 bf16", true, [] { return __builtin_cpu_supports("avx512bf16") != 0; }, avx512_bf16, 32},
    {"avx512 f32", false, [] { return __builtin_cpu_supports("avx512f") != 0; }, avx512_f32, 16},
    {"avx2 f32", false, [] { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; },
     avx2_f32, 8},
#endif
    {"generic f32", false, [] { return true; }, generic_f32, 1},
};

double seconds_of(const Kernel& kernel) {
  volatile float factor = 0.5F;
  const auto start = std::chrono::steady_clock::now();
  volatile float kept = kernel.loop(factor);
  (void)kept;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

FmaPeak measure_fma_peak(DType dtype) {
  FmaPeak out;
  for (const Kernel& kernel : kKernels) {
    if ((kernel.is_bf16 && dtype != DType::kBF16) || !kernel.runs_here()) continue;
    constexpr int kRuns = 100;
    double best = seconds_of(kernel);
    for (int run = 0; run < kRuns; ++run) best = std::min(best, seconds_of(kernel));
    const double speed = 2.0 * kernel.multiply_adds * kChains * static_cast<double>(kRounds) / best;
    if (speed > out.flops_per_second) out = {speed, kernel.name};
  }
  return out;
}

}  // namespace tessera::bench
