// SPDX-License-Identifier: Apache-2.0
// Products of a few rows with a large matrix in f32, as in a step of generation. The matrix is read once, in the order
// of memory, so the speed is that of the memory.
#include <utility>

#include "kernels/simd/registration.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

#if defined(__AVX512F__)
constexpr std::int64_t kLanes = 16;
#elif defined(__AVX2__)
constexpr std::int64_t kLanes = 8;
#else
constexpr std::int64_t kLanes = 4;
#endif
using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
using LooseVector = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));

inline Vector load(const float* from) { return *reinterpret_cast<const LooseVector*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<LooseVector*>(to) = value; }

std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// ---- adjacent columns: b is [k, n] ------------------------------------------------------------------------------------------

// Adds kDepth lines of b, times their factors, to the columns [from, to) of all rows of the result.
template <std::int64_t kDepth>
void add_lines(const SgemmArgs& args, std::int64_t k, std::int64_t from, std::int64_t to, bool starts) {
  const float* const b = static_cast<const float*>(args.b) + k * args.b_k;
  const float* const a = static_cast<const float*>(args.a) + k * args.a_k;
  std::int64_t j = from;
  for (; j + kLanes <= to; j += kLanes) {
    Vector lines[kDepth];
#pragma GCC unroll 8
    for (std::int64_t d = 0; d < kDepth; ++d) {
      lines[d] = load(b + d * args.b_k + j);
      __builtin_prefetch(b + (kDepth + d) * args.b_k + j);  // of the next call
    }
    for (std::int64_t i = 0; i < args.m; ++i) {
      float* const out = args.out + i * args.out_stride + j;
      const float* const factors = a + i * args.a_m;
      Vector sum = starts ? Vector{} : load(out);
#pragma GCC unroll 8
      for (std::int64_t d = 0; d < kDepth; ++d) sum += factors[d * args.a_k] * lines[d];
      store(out, sum);
    }
  }
  for (; j < to; ++j)
    for (std::int64_t i = 0; i < args.m; ++i) {
      float& out = args.out[i * args.out_stride + j];
      float sum = starts ? 0.0F : out;
      for (std::int64_t d = 0; d < kDepth; ++d) sum += a[i * args.a_m + d * args.a_k] * b[d * args.b_k + j];
      out = sum;
    }
}

void multiply_lines(const SgemmArgs& args) {
  constexpr std::int64_t kDepth = 8;
  constexpr std::int64_t kCached = 4096;  // floats of the result
  const std::int64_t columns = (kCached / args.m + kLanes - 1) / kLanes * kLanes;
  for (std::int64_t from = 0; from < args.n; from += columns) {
    const std::int64_t to = smaller(from + columns, args.n);
    std::int64_t k = 0;
    for (; k + kDepth <= args.k; k += kDepth) add_lines<kDepth>(args, k, from, to, k == 0 && !args.accumulates);
    for (; k < args.k; ++k) add_lines<1>(args, k, from, to, k == 0 && !args.accumulates);
  }
}

// ---- adjacent depths: b is [n, k] -------------------------------------------------------------------------------------------

template <std::int64_t kStep, std::size_t... I>
Vector exchanged(Vector x, std::index_sequence<I...>) {
  return __builtin_shufflevector(x, x, (static_cast<std::int64_t>(I) ^ kStep)...);
}
inline float sum_of(Vector x) {
  constexpr auto kAll = std::make_index_sequence<kLanes>{};
  if constexpr (kLanes >= 16) x += exchanged<8>(x, kAll);
  if constexpr (kLanes >= 8) x += exchanged<4>(x, kAll);
  x += exchanged<2>(x, kAll);
  x += exchanged<1>(x, kAll);
  return x[0];
}

// The products of kRows rows from i on with kColumns columns from j on.
template <std::int64_t kRows, std::int64_t kColumns>
void multiply_columns(const SgemmArgs& args, std::int64_t i, std::int64_t j) {
  const float* const a = static_cast<const float*>(args.a) + i * args.a_m;
  const float* const b = static_cast<const float*>(args.b) + j * args.b_n;
  Vector sums[kRows][kColumns] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= args.k; k += kLanes) {
    Vector left[kRows];
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < kRows; ++r) left[r] = load(a + r * args.a_m + k);
#pragma GCC unroll 8
    for (std::int64_t c = 0; c < kColumns; ++c) {
      const Vector right = load(b + c * args.b_n + k);
      __builtin_prefetch(b + (kColumns + c) * args.b_n + k);
#pragma GCC unroll 4
      for (std::int64_t r = 0; r < kRows; ++r) sums[r][c] += left[r] * right;
    }
  }
#pragma GCC unroll 4
  for (std::int64_t r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (std::int64_t c = 0; c < kColumns; ++c) {
      float sum = sum_of(sums[r][c]);
      for (std::int64_t rest = k; rest < args.k; ++rest) sum += a[r * args.a_m + rest] * b[c * args.b_n + rest];
      float& out = args.out[(i + r) * args.out_stride + j + c];
      out = args.accumulates ? out + sum : sum;
    }
}

template <std::int64_t kColumns>
void multiply_all_rows(const SgemmArgs& args, std::int64_t j) {
  constexpr std::int64_t kRows = 4;
  std::int64_t i = 0;
  for (; i + kRows <= args.m; i += kRows) multiply_columns<kRows, kColumns>(args, i, j);
  for (; i < args.m; ++i) multiply_columns<1, kColumns>(args, i, j);
}

void multiply_turned(const SgemmArgs& args) {
  constexpr std::int64_t kColumns = 4;
  std::int64_t j = 0;
  for (; j + kColumns <= args.n; j += kColumns) multiply_all_rows<kColumns>(args, j);
  for (; j < args.n; ++j) multiply_all_rows<1>(args, j);
}

void few_rows(const SgemmArgs& args) { args.b_n == 1 ? multiply_lines(args) : multiply_turned(args); }

}  // namespace

void add_few_rows(KernelSet& set) { set.few_rows = few_rows; }

}  // namespace tessera::kernels::TESSERA_ISA
