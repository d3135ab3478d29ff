// SPDX-License-Identifier: Apache-2.0
// attention and attention-backward: ops of Tessera that HLO lacks. They need memory that is linear in the number of
// rows and keys.
#pragma once

#include "tessera/ir/builder.h"

namespace tessera {

struct OpView;

struct AttentionAttributes {
  bool causal = false;
  std::int64_t window = 0;  // with `causal`: a row attends only to the last `window` of its keys; 0: to all
  double scale = 1;
  double dropout = 0;       // the probability of zero
  bool has_mask = false;    // there is an operand `mask`
  bool has_offset = false;  // there is an operand `offset`
  Dims dropout_dims{};      // heads, rows and keys of the complete scores; empty if there is no operand `start`
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("causal", self.causal, Presence::kIfNotDefault);
    visit("window", self.window, Presence::kIfNotDefault);
    visit("scale", self.scale, Presence::kAlways);
    visit("dropout", self.dropout, Presence::kIfNotDefault);
    visit("has_mask", self.has_mask, Presence::kIfNotDefault);
    visit("has_offset", self.has_offset, Presence::kIfNotDefault);
    visit("dropout_dims", self.dropout_dims, Presence::kIfNotDefault);
  }
  friend bool operator==(const AttentionAttributes&, const AttentionAttributes&) = default;
};

/// The sizes, and the operand numbers of the optional operands; -1 if an operand is absent.
struct AttentionForm {
  AttentionAttributes attributes;
  bool is_backward = false;
  std::int64_t batch = 0, rows = 0, heads = 0, depth = 0;  // of q
  std::int64_t keys = 0, key_heads = 0, value_depth = 0;   // of k and v
  int mask = -1, offset = -1, key = -1, start = -1;
  [[nodiscard]] std::int64_t group() const { return heads / key_heads; }
};
/// Reads the form of an instruction. Throws an Error with the reason if the operands do not fit.
AttentionForm attention_form(const OpView& view);
/// Whether the op is attention or its backward pass, whose FLOPs are those of matrix products.
bool is_attention(const OpDef& op);

namespace ops {

/// The optional operands of attention; null values are absent.
struct AttentionOperands {
  bool causal = false;
  std::int64_t window = 0;  // with `causal`: the most keys to which a row attends; 0: no limit
  double scale = 1;
  double dropout = 0;
  Value mask{};         // pred (true: the key is visible) or q's type (added), [batch|1, heads|1, rows|1, keys|1]
  Value offset{};       // s32[]: with `causal`, row i attends to the keys 0..i+offset
  Value key{};          // u32[2], of the dropout
  Value start{};        // s32[4]: the position of the first score in the complete ones (batch, head, row, key)
  Dims dropout_dims{};  // with `start`: the heads, rows and keys of the complete scores
};

/// softmax(scale q k^T + mask) v for each head: q [batch, rows, heads, depth], k [batch, keys, key heads, depth], v
/// [batch, keys, key heads, value depth] -> (output [batch, rows, heads, value depth], log-sum-exp of the scores
/// [batch, rows, heads], in f32 at least). Head h reads key head h / (heads / key heads). A row without visible keys
/// gives 0 and log-sum-exp -inf.
Value attention(Value q, Value k, Value v, const AttentionOperands& options);
/// The gradients (d_q, d_k, d_v) from d_output, the log-sum-exp, and delta [batch, rows, heads] = sum(d_output *
/// output) minus the gradient of the log-sum-exp.
Value attention_backward(Value q, Value k, Value v, Value d_output, Value log_sum, Value delta,
                         const AttentionOperands& options);

}  // namespace ops
}  // namespace tessera
