// SPDX-License-Identifier: Apache-2.0
#include "fma_peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
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
#endif

struct Kernel {
  const char* name;
  bool is_bf16;
  bool (*runs_here)();
  float (*loop)(float);
  int multiply_adds;  // of one instruction
};

constexpr Kernel kKernels[] = {
// fastest first
#if defined(__x86_64__)
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
  const Kernel* kernel = std::find_if(std::begin(kKernels), std::end(kKernels), [&](const Kernel& k) {
    return k.runs_here() && (dtype == DType::kBF16 || !k.is_bf16);
  });
  constexpr int kRuns = 200;
  double best = seconds_of(*kernel);
  for (int run = 0; run < kRuns; ++run) best = std::min(best, seconds_of(*kernel));
  const double operations = 2.0 * kernel->multiply_adds * kChains * static_cast<double>(kRounds);
  return {operations / best, kernel->name};
}

}  // namespace tessera::bench
