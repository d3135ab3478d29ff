// SPDX-License-Identifier: Apache-2.0
// Attention as one op: neither the forward nor the backward pass keeps scores, so memory is linear in the length.
#pragma once

#include <optional>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

struct AttentionSettings {
  /// Row i sees the keys 0 to i (as in PyTorch, also for unequal numbers of rows and keys), or to i + query_offset.
  bool causal = false;
  /// The position of the first row among the keys: a scalar of an integer type, for example the number of keys in a
  /// cache before these rows. To align the last row with the last key, give the difference of keys and rows.
  Tensor query_offset{};
  /// Broadcasts to [batch, heads, rows, keys]: pred (true: the row sees the key) or the type of q (added to the
  /// scores). A row that sees no key gives 0.
  Tensor mask{};
  /// The factor of the scores; by default 1/sqrt(depth).
  std::optional<double> scale{};
  /// The probability with which a weight becomes 0. The others are divided by 1 - dropout. The choice depends only on
  /// the seed, the step, the op and the global position, as that of dropout().
  double dropout = 0;
};

/// softmax(scale q k^T + mask) v for each head, as in PyTorch: q [batch, heads, rows, depth], k [batch, key heads, keys,
/// depth], v [batch, key heads, keys, value depth] -> [batch, heads, rows, value depth]. The number of heads is a
/// multiple of that of key heads: consecutive heads share one (grouped queries). Arrays with 2 and 3 dims have no heads,
/// or neither heads nor batch. Differentiable in q, k, v and a mask that is added. Sums are in f32 at least. Batch, heads
/// and rows may be sharded; then each device computes its part, with the keys that it needs.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionSettings& settings = {},
                                    std::source_location where = std::source_location::current());
/// The same for q [batch, rows, heads, depth], k and v [batch, keys, key heads, …], as in JAX.
Tensor dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSettings& settings = {},
                             std::source_location where = std::source_location::current());

}  // namespace tessera
