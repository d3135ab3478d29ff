// SPDX-License-Identifier: Apache-2.0
// The self-attention of encoders (BERT, ViT). Every position attends to all positions, except those that the mask
// excludes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/activation_sharding.h"
#include "tessera/nn/layers.h"

namespace tessera::nn {

/// A linear layer to heads: [b, t, in] -> [b, t, heads, head_size]. The weight is [heads, head_size, in], so that heads
/// can be sharded; files hold [heads * head_size, in].
class HeadsLinear : public Callable<HeadsLinear> {
 public:
  struct Options {
    bool bias = true;
    double standard_deviation = 0.02;  // of the initial weight
    DType dtype = DType::kF32;
  };
  HeadsLinear(std::int64_t in, std::int64_t heads, std::int64_t head_size, const Options& options);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] std::string_view class_name() const override { return "Linear"; }

 private:
  Tensor weight_, bias_;
};

/// Attention without the projection of its result: `query`, `key` and `value` are its submodules.
class EncoderSelfAttention : public Callable<EncoderSelfAttention> {
 public:
  struct Options {
    std::int64_t hidden_size = 0;
    std::int64_t heads = 0;  // divides hidden_size
    bool bias = true;
    double dropout = 0;  // of the attention weights
    double standard_deviation = 0.02;
    DType dtype = DType::kF32;
  };
  explicit EncoderSelfAttention(const Options& options);
  /// x [b, t, c] -> [b, t, c]. `mask` is [b, t] and true for the positions to which others attend; null: all positions.
  Tensor forward(const Tensor& x, const Tensor& mask);
  /// Shards the weights and the products by heads over the axis of the split.
  void shard(const ActivationSharding& split);
  [[nodiscard]] HeadsLinear& query() { return query_; }
  [[nodiscard]] HeadsLinear& key() { return key_; }
  [[nodiscard]] HeadsLinear& value() { return value_; }
  [[nodiscard]] std::string_view class_name() const override { return "EncoderSelfAttention"; }

 private:
  std::int64_t heads_, head_size_;
  double dropout_;
  HeadsLinear query_, key_, value_;
  std::optional<ActivationSharding> split_;
};

/// Shards a linear layer over the axis of the split: its outputs and bias, or its inputs.
void shard_outputs(const Linear& layer, const ActivationSharding& split);
void shard_inputs(const Linear& layer, const ActivationSharding& split);

}  // namespace tessera::nn
