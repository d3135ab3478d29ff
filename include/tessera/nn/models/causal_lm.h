// SPDX-License-Identifier: Apache-2.0
// The interface of causal language models: logits of complete texts, for training, and steps with a cache of keys and
// values, for generation (tessera/nn/generation/generate.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/frontend/tensor/attention.h"
#include "tessera/nn/activation_split.h"
#include "tessera/nn/module.h"

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

/// The place of the tokens of a step. The texts of a batch end in the same slot; shorter ones begin in a later slot.
struct StepPlace {
  Tensor start{};      // s32[]: the slot of the first token of the step
  Tensor positions{};  // s32[batch, time]: the position of each token in its text (0 in unused slots)
  Tensor visible{};    // pred[batch, 1, 1, slots]: false for unused slots; null if all are used
};

/// Writes the keys and values [batch, time, key heads, head size] of a layer into the cache, and returns the attention
/// of q [batch, time, heads, head size] over all slots up to each token: [batch, time, heads, head size]. `settings` may
/// give a scale.
Tensor cached_attention(KeyValueCache& cache, std::int64_t layer, const StepPlace& place, const Tensor& q,
                        const Tensor& k, const Tensor& v, AttentionSettings settings = {});

/// A model derives from Module and from this class.
class CausalLM {
 public:
  virtual ~CausalLM() = default;
  /// s32 [batch, time] -> [batch, time, vocabulary].
  virtual Tensor logits(const Tensor& ids) = 0;
  /// Adds the tokens ids s32 [batch, time] to the cache. Returns the logits of the last token of each text: [batch,
  /// vocabulary].
  virtual Tensor step(const Tensor& ids, const StepPlace& place, KeyValueCache& cache) = 0;
  [[nodiscard]] virtual CacheSizes cache_sizes() const = 0;
  /// The model itself, for its parameters and mode.
  virtual Module& module() = 0;
  /// The axis over which the heads are sharded, if there is one: the cache is sharded like them.
  [[nodiscard]] virtual std::optional<ActivationSplit> head_split() const { return std::nullopt; }

 protected:
  CausalLM() = default;
  CausalLM(const CausalLM&) = default;
  CausalLM& operator=(const CausalLM&) = default;
};

}  // namespace tessera::nn
