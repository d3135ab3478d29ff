// SPDX-License-Identifier: Apache-2.0
// The fast inner loops, compiled once for each instruction set (generic, AVX2, AVX-512) from the same sources. A set is
// a table of plain functions over raw pointers. The sources include nothing with inline functions that the linker could
// merge across sets.
#pragma once

#include <cstdint>

#include "tessera/tensor/dtype.h"

namespace tessera::kernels {

// X(word, row of the op table). clang-format would rewrap the entries every time.
// clang-format off
#define TESSERA_UNARY_OPS(X) \
  X(negate, kNegate) X(abs, kAbs) X(sign, kSign) X(logical_not, kNot) X(exp, kExponential) \
  X(expm1, kExponentialMinusOne) X(log, kLog) X(log1p, kLogPlusOne) X(sqrt, kSqrt) X(rsqrt, kRsqrt) \
  X(cbrt, kCbrt) X(tanh, kTanh) X(tan, kTan) X(sin, kSine) X(cos, kCosine) X(logistic, kLogistic) \
  X(erf, kErf) X(floor, kFloor) X(ceil, kCeil) X(round_even, kRoundNearestEven) \
  X(round_afz, kRoundNearestAfz) X(popcnt, kPopcnt) X(clz, kCountLeadingZeros) \
  X(is_finite, kIsFinite)
#define TESSERA_BINARY_OPS(X) \
  X(add, kAdd) X(subtract, kSubtract) X(multiply, kMultiply) X(divide, kDivide) X(remainder, kRemainder) \
  X(power, kPower) X(maximum, kMaximum) X(minimum, kMinimum) X(atan2, kAtan2) X(bit_and, kAnd) \
  X(bit_or, kOr) X(bit_xor, kXor) X(shift_left, kShiftLeft) X(shift_right_sign, kShiftRightArithmetic) \
  X(shift_right_zeros, kShiftRightLogical)
// clang-format on

#define TESSERA_WORD(word, row) word,
enum class UnaryOp : std::uint8_t { TESSERA_UNARY_OPS(TESSERA_WORD) kCount };
enum class BinaryOp : std::uint8_t { TESSERA_BINARY_OPS(TESSERA_WORD) kCount };
#undef TESSERA_WORD

/// Arrays of `count` elements each. `out` may be one of `in`.
struct TileArgs {
  void* out = nullptr;
  const void* in[3] = {nullptr, nullptr, nullptr};
  std::int64_t count = 0;
};
using TileFunction = void (*)(const TileArgs&);
/// Writes `count` copies of the element at `value`.
using FillFunction = void (*)(void* to, const void* value, std::int64_t count);
/// Writes first, first + 1, …
using CountUpFunction = void (*)(void* to, std::int64_t first, std::int64_t count);

enum class ReduceOp : std::uint8_t { kSum, kProduct, kMin, kMax, kCount };
/// Reduces elements into accumulators. For f16, bf16 and f32 they are double (sum, product) or float (min, max), and
/// for other types the type itself.
using ReduceRowFunction = void (*)(const void* in, std::int64_t count, void* accumulator);
using ReduceColumnsFunction = void (*)(const void* in, std::int64_t count, void* accumulators);

/// out[m,n] = a[m,k] b[k,n]. Row strides are in elements. A transposed operand is stored as the rows of its transpose.
struct GemmArgs {
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  std::int64_t a_stride = 0, b_stride = 0, out_stride = 0;
  bool a_transposed = false;  // a is stored [k,m]
  bool b_transposed = false;  // b is stored [n,k]
};

/// out[m,n] = a[m,k] b[k,n], or added to it, summed in f32. The rows of `out` are contiguous; a and b may have any
/// strides.
struct SgemmArgs {
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;  // f32 or bf16
  const void* b = nullptr;
  float* out = nullptr;
  std::int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, out_stride = 0;  // strides in elements
  bool is_bf16 = false;
  bool accumulates = false;
  float* workspace = nullptr;  // sgemm_workspace() bytes, aligned to a cache line
};

/// Rounds of Philox 2x32 on `count` counters (low, high). Each round has its own key. `out` is the low word after the
/// last round.
struct PhiloxArgs {
  std::uint32_t* out = nullptr;
  const std::uint32_t* low = nullptr;
  const std::uint32_t* high = nullptr;
  std::int64_t count = 0;
  const std::uint32_t* keys = nullptr;
  int rounds = 0;
  std::uint32_t multiplier = 0;
};
using PhiloxFunction = void (*)(const PhiloxArgs&);

/// map[n][o, s] = sum over i of weights[o, i] image[n][i, s], for all images n and places s. Places are contiguous. The
/// gradient of the weights is weights[o, i] = sum over n and s of map[n][o, s] image[n][i, s].
struct PointwiseArgs {
  std::int64_t images = 0, places = 0, inputs = 0, outputs = 0;
  std::int64_t in_image = 0, in_feature = 0, out_image = 0, out_feature = 0;  // strides
  std::int64_t weights_out = 0, weights_in = 0;                               // strides; weights_in of a gradient is 1
  const float* image = nullptr;
  const float* weights = nullptr;     // read by `pointwise`
  float* map = nullptr;               // written by `pointwise`, read by `pointwise_gradient`
  float* weights_gradient = nullptr;  // written by `pointwise_gradient`
  float* workspace = nullptr;         // as many bytes as the function of the workspace returns, aligned to a cache line
};

/// The images or the maps of a convolution. Elements of a row are contiguous.
struct WinogradSide {
  std::int64_t features = 0, height = 0, width = 0;
  std::int64_t image_stride = 0, feature_stride = 0, row_stride = 0;
};
/// map[n, o, y, x] = sum over i, v, u of weights[o, i, v, u] image[n, i, y + v - low_y, x + u - low_x], for windows of
/// three by three elements. Elements outside of the image are 0. The gradient of the weights is
/// weights[o, i, v, u] = sum over n, y, x of map[n, o, y, x] image[n, i, y + v - low_y, x + u - low_x].
struct WinogradArgs {
  std::int64_t images = 0;
  WinogradSide in, out;
  std::int64_t low_y = 0, low_x = 0;
  std::int64_t weights_out = 0, weights_in = 0, weights_y = 0, weights_x = 0;  // strides
  const float* image = nullptr;
  const float* weights = nullptr;     // read by `winograd`
  float* map = nullptr;               // written by `winograd`, read by `winograd_gradient`
  float* weights_gradient = nullptr;  // written by `winograd_gradient`
  float* workspace = nullptr;         // as many bytes as the function of the workspace returns, aligned to a cache line
};

struct KernelSet {
  // Null if the op does not support the type.
  TileFunction unary[static_cast<int>(UnaryOp::kCount)][kDTypeCount] = {};
  TileFunction binary[static_cast<int>(BinaryOp::kCount)][kDTypeCount] = {};
  TileFunction compare[6][kDTypeCount] = {};            // by CompareDirection; out is pred
  TileFunction compare_total[6][kDTypeCount] = {};      // floating-point types
  TileFunction select[4] = {};                          // by log2 of the element size; in: pred, on true, on false
  FillFunction fill[4] = {};                            // by log2 of the element size
  CountUpFunction count_up[kDTypeCount] = {};           // integers, f32 and f64
  TileFunction clamp[kDTypeCount] = {};                 // in: low, x, high
  TileFunction convert[kDTypeCount][kDTypeCount] = {};  // [from][to]
  ReduceRowFunction reduce_row[static_cast<int>(ReduceOp::kCount)][kDTypeCount] = {};
  ReduceColumnsFunction reduce_columns[static_cast<int>(ReduceOp::kCount)][kDTypeCount] = {};
  PhiloxFunction philox_rounds = nullptr;
  void (*gemm_f64)(const GemmArgs&) = nullptr;
  void (*sgemm)(const SgemmArgs&) = nullptr;  // requires k >= 1
  std::int64_t (*sgemm_workspace)(const SgemmArgs&) = nullptr;
  /// For a few rows of f32. Requires k >= 1, a_k == 1, and b_n == 1 or b_k == 1; needs no workspace.
  void (*few_rows)(const SgemmArgs&) = nullptr;
  void (*pointwise)(const PointwiseArgs&) = nullptr;
  std::int64_t (*pointwise_workspace)(const PointwiseArgs&) = nullptr;
  void (*pointwise_gradient)(const PointwiseArgs&) = nullptr;
  std::int64_t (*pointwise_gradient_workspace)(const PointwiseArgs&) = nullptr;
  void (*winograd)(const WinogradArgs&) = nullptr;
  std::int64_t (*winograd_workspace)(const WinogradArgs&) = nullptr;
  void (*winograd_gradient)(const WinogradArgs&) = nullptr;
  std::int64_t (*winograd_gradient_workspace)(const WinogradArgs&) = nullptr;
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

/// Returns the best set that this processor supports, or the one that TESSERA_ISA names.
const KernelSet& kernel_set();

}  // namespace tessera::kernels
