// SPDX-License-Identifier: Apache-2.0
// The fast inner loops, compiled once per instruction set (generic, AVX2, AVX-512) from the same sources. A set is a table of
// plain functions over raw pointers. The sources include nothing whose inline functions could be merged across sets by the linker.
#pragma once

#include <cstdint>

#include "tessera/tensor/dtype.h"

namespace tessera::kernels {

// X(word, HLO name). clang-format would move the entries at every run.
// clang-format off
#define TESSERA_UNARY_OPS(X) \
  X(negate, "negate") X(abs, "abs") X(sign, "sign") X(logical_not, "not") X(exp, "exponential") \
  X(expm1, "exponential-minus-one") X(log, "log") X(log1p, "log-plus-one") X(sqrt, "sqrt") X(rsqrt, "rsqrt") \
  X(cbrt, "cbrt") X(tanh, "tanh") X(tan, "tan") X(sin, "sine") X(cos, "cosine") X(logistic, "logistic") \
  X(erf, "erf") X(floor, "floor") X(ceil, "ceil") X(round_even, "round-nearest-even") \
  X(round_afz, "round-nearest-afz") X(popcnt, "popcnt") X(clz, "count-leading-zeros") \
  X(is_finite, "is-finite")
#define TESSERA_BINARY_OPS(X) \
  X(add, "add") X(subtract, "subtract") X(multiply, "multiply") X(divide, "divide") X(remainder, "remainder") \
  X(power, "power") X(maximum, "maximum") X(minimum, "minimum") X(atan2, "atan2") X(bit_and, "and") \
  X(bit_or, "or") X(bit_xor, "xor") X(shift_left, "shift-left") X(shift_right_sign, "shift-right-arithmetic") \
  X(shift_right_zeros, "shift-right-logical")
// clang-format on

#define TESSERA_WORD(word, name) word,
enum class UnaryOp : std::uint8_t { TESSERA_UNARY_OPS(TESSERA_WORD) kCount };
enum class BinaryOp : std::uint8_t { TESSERA_BINARY_OPS(TESSERA_WORD) kCount };
#undef TESSERA_WORD

/// `count` elements of each; `out` may be one of `in`.
struct TileArgs {
  void* out = nullptr;
  const void* in[3] = {nullptr, nullptr, nullptr};
  std::int64_t count = 0;
};
using TileFunction = void (*)(const TileArgs&);
/// `count` elements like the one at `value`.
using FillFunction = void (*)(void* to, const void* value, std::int64_t count);
/// first, first + 1, ..
using CountUpFunction = void (*)(void* to, std::int64_t first, std::int64_t count);

enum class ReduceOp : std::uint8_t { kSum, kProduct, kMin, kMax, kCount };
/// Folds elements into accumulators: for f16, bf16 and f32 of type double (sum, product) or float (min, max), else of the type
/// itself.
using ReduceRowFunction = void (*)(const void* in, std::int64_t count, void* accumulator);
using ReduceColumnsFunction = void (*)(const void* in, std::int64_t count, void* accumulators);

/// out[m,n] = a[m,k] b[k,n]; row strides in elements; a transposed operand is given as its transpose's rows.
struct GemmArgs {
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  std::int64_t a_stride = 0, b_stride = 0, out_stride = 0;
  bool a_transposed = false;  // a is stored [k,m]
  bool b_transposed = false;  // b is stored [n,k]
};

/// out[m,n] = a[m,k] b[k,n], or added to it, summed in f32; the rows of `out` lie in one piece, a and b anyhow.
struct SgemmArgs {
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;  // f32 or bf16
  const void* b = nullptr;
  float* out = nullptr;
  std::int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, out_stride = 0;  // strides in elements
  bool is_bf16 = false;
  bool accumulates = false;
  float* workspace = nullptr;  // sgemm_workspace bytes, at a cache line
};

/// Rounds of Philox 2x32 on `count` counters (low, high), each with its own key; out is the last low word.
struct CounterRoundsArgs {
  std::uint32_t* out = nullptr;
  const std::uint32_t* low = nullptr;
  const std::uint32_t* high = nullptr;
  std::int64_t count = 0;
  const std::uint32_t* keys = nullptr;
  int rounds = 0;
  std::uint32_t multiplier = 0;
};
using CounterRoundsFunction = void (*)(const CounterRoundsArgs&);

struct KernelSet {
  const char* name = "";
  // Null where the op does not take the type.
  TileFunction unary[static_cast<int>(UnaryOp::kCount)][kDTypeCount] = {};
  TileFunction binary[static_cast<int>(BinaryOp::kCount)][kDTypeCount] = {};
  TileFunction compare[6][kDTypeCount] = {};            // by CompareDirection; out is pred
  TileFunction compare_total[6][kDTypeCount] = {};      // floating-point types
  TileFunction select[4] = {};                          // by log2 of the element's bytes; in: pred, on true, on false
  FillFunction fill[4] = {};                            // by log2 of the element's bytes
  CountUpFunction count_up[kDTypeCount] = {};           // integers, f32 and f64
  TileFunction clamp[kDTypeCount] = {};                 // in: low, x, high
  TileFunction convert[kDTypeCount][kDTypeCount] = {};  // [from][to]
  ReduceRowFunction reduce_row[static_cast<int>(ReduceOp::kCount)][kDTypeCount] = {};
  ReduceColumnsFunction reduce_columns[static_cast<int>(ReduceOp::kCount)][kDTypeCount] = {};
  CounterRoundsFunction counter_rounds = nullptr;
  void (*gemm_f64)(const GemmArgs&) = nullptr;
  void (*sgemm)(const SgemmArgs&) = nullptr;  // k at least 1
  std::int64_t (*sgemm_workspace)(const SgemmArgs&) = nullptr;
};

namespace generic {
const KernelSet& kernel_set();
}
namespace avx2 {
const KernelSet& kernel_set();
}
namespace avx512 {
const KernelSet& kernel_set();
}

/// The best set this processor runs, or the one TESSERA_ISA names.
const KernelSet& kernel_set();

}  // namespace tessera::kernels
