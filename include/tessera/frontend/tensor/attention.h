// SPDX-License-Identifier: Apache-2.0
// Attention as one op. Neither the forward nor the backward pass keeps the scores in memory, so the memory is linear in
// the number of rows and keys.
#pragma once

#include <optional>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// The options of scaled_dot_product_attention().
struct AttentionSettings {
  /// Row i attends to the keys 0 to i, or with query_offset to the keys 0 to i + query_offset. As in PyTorch, this also
  /// applies if the numbers of rows and keys differ.
  bool causal = false;
  /// With `causal`: a row attends only to the last `window` of these keys, including that at its own position (sliding
  /// windows). 0: to all of them.
  std::int64_t window = 0;
  /// The position of the first row among the keys: a scalar of an integer type, for example the number of keys in a
  /// cache before these rows. The number of keys minus the number of rows aligns the last row with the last key.
  Tensor query_offset{};
  /// Broadcasts to [batch, heads, rows, keys]: pred (true: the row attends to the key) or the type of q (added to the
  /// scores). The result of a row that attends to no key is 0.
  Tensor mask{};
  /// The factor of the scores; by default 1/sqrt(depth).
  std::optional<double> scale{};
  /// The probability with which a weight becomes 0. The others are divided by 1 - dropout. As in dropout(), the choice
  /// depends only on the seed, the step, the op and the global position.
  double dropout = 0;
};

/// softmax(scale q k^T + mask) v for each head, as in PyTorch: q [batch, heads, rows, depth], k [batch, key heads,
/// keys, depth], v [batch, key heads, keys, value depth] -> [batch, heads, rows, value depth]. The number of heads is a
/// multiple of the number of key heads: consecutive heads share one key head (grouped-query attention). Arrays with 3
/// dims have no heads dim, and arrays with 2 dims have no batch dim either. Differentiable in q, k, v and a mask that
/// is added. Sums are in f32 at least. Batch, heads and rows may be sharded; each device then computes its part of the
/// result, from the keys that this part requires.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionSettings& settings = {},
                                    std::source_location where = std::source_location::current());
/// The same for q [batch, rows, heads, depth], k and v [batch, keys, key heads, …], as in JAX.
Tensor dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSettings& settings = {},
                             std::source_location where = std::source_location::current());

}  // namespace tessera
