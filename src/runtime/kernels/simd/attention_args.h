// SPDX-License-Identifier: Apache-2.0
// The arguments of the attention kernels. Each instruction set has its own functions.
#pragma once

#include <cstdint>

#include "kernels/simd/kernel_set.h"

namespace tessera::kernels {

/// An array [batch, rows, heads, columns] with strides in elements.
struct AttentionArray {
  const void* data = nullptr;
  std::int64_t batch = 0, row = 0, head = 0, column = 0;
};

struct AttentionArgs {
  DType dtype = DType::kF32;  // of all arrays but the sums, which are f64 for f64 and otherwise f32
  std::int64_t batch = 0, rows = 0, heads = 0, depth = 0;
  std::int64_t keys = 0, key_heads = 0, value_depth = 0;
  AttentionArray q, k, v;
  AttentionArray d_output, log_sum, delta;  // backward only
  // Row-major: (output, log-sum-exp), or (d_q, d_k, d_v). Null if unused.
  void* out[3] = {nullptr, nullptr, nullptr};

  double scale = 1;
  bool causal = false;
  std::int64_t offset = 0;  // row i sees the keys to i + offset
  std::int64_t window = 0;  // with `causal`: row i sees the last `window` of these keys; 0: all
  const void* mask = nullptr;
  bool mask_is_pred = false;
  std::int64_t mask_strides[4] = {0, 0, 0, 0};  // batch, head, row, key; 0 where it broadcasts

  std::uint32_t dropout_threshold = 0;  // a score is kept if its 24 bits are at least this; 0: no dropout
  double kept_factor = 1;
  std::uint32_t key[2] = {0, 0};
  std::int64_t start[4] = {0, 0, 0, 0};  // batch, head, row, key in the complete scores
  std::int64_t complete[3] = {1, 1, 1};  // their heads, rows and keys
  PhiloxFunction philox_rounds = nullptr;

  std::byte* workspace = nullptr;  // aligned to a cache line
};

struct AttentionFunctions {
  void (*forward)(const AttentionArgs&) = nullptr;
  void (*backward)(const AttentionArgs&) = nullptr;
  std::int64_t (*forward_workspace)(const AttentionArgs&) = nullptr;
  std::int64_t (*backward_workspace)(const AttentionArgs&) = nullptr;
};

namespace generic {
AttentionFunctions attention_functions(DType dtype);
}
namespace avx2 {
AttentionFunctions attention_functions(DType dtype);
}
namespace avx512 {
AttentionFunctions attention_functions(DType dtype);
}
namespace avx512bf16 {
/// Products of bf16 by the processor's instructions for them.
AttentionFunctions attention_functions(DType dtype);
}  // namespace avx512bf16
namespace amx {
/// Products of bf16 on tile registers.
AttentionFunctions attention_functions(DType dtype);
}  // namespace amx

/// Returns the functions for f16, bf16, f32 or f64 of the set that kernel_set() returns.
AttentionFunctions attention_functions(DType dtype);

}  // namespace tessera::kernels
