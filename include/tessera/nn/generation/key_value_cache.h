// SPDX-License-Identifier: Apache-2.0
// The cache of keys and values of generation, and the place of a step in it.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/frontend/tensor/attention.h"

namespace tessera::nn {

/// The keys and values of all previous tokens: for each layer [batch, slots, key heads, head size]. A step writes the
/// slots of its tokens.
struct KeyValueCache {
  std::vector<Tensor> keys;
  std::vector<Tensor> values;
};

/// The sizes of the cache of a model.
struct CacheSizes {
  std::int64_t layers = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t most_positions = 0;  // the longest text; 0: any
  DType dtype = DType::kF32;
};

/// The place of the tokens of a step. All texts of a batch end in the same slot, so shorter ones begin in a later slot.
struct StepPlace {
  Tensor start{};      // s32[]: the slot of the first token of the step
  Tensor positions{};  // s32[batch, time]: the position of each token in its text (0 in unused slots)
  Tensor visible{};    // pred[batch, 1, 1, slots]: false for unused slots; null if all are used
};

/// Writes the keys and values [batch, time, key heads, head size] of a layer into the cache, and returns the attention
/// of q [batch, time, heads, head size] over all slots up to each token: [batch, time, heads, head size]. `settings`
/// may give a scale.
Tensor cached_attention(KeyValueCache& cache, std::int64_t layer, const StepPlace& place, const Tensor& q,
                        const Tensor& k, const Tensor& v, AttentionSettings settings = {});

}  // namespace tessera::nn
