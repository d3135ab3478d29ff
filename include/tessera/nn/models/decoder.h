// SPDX-License-Identifier: Apache-2.0
// Decoders of Llama's kind, with Hugging Face's names: RMS norms, rotary positions, groups of heads that share keys,
// gated feed-forward layers. Llama, Mistral, Qwen2 and Qwen3 differ only in DecoderOptions. Attention weights are
// [g, r, d, c] and [g, d, c], so that groups of heads can be sharded; files hold [g r d, c] and [g d, c].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/nn/layers.h"
#include "tessera/nn/models/model.h"

namespace tessera::nn {

/// The values that the layers of a model share in one call.
struct DecoderContext {
  RotaryEmbedding::Tables rotary;
  Tensor mask{};                     // booleans [b, 1, 1, t]: false for padding; null: none
  const StepPlace* place = nullptr;  // not null in a step of generation, with `cache` and `layer`
  KeyValueCache* cache = nullptr;
  std::int64_t layer = 0;
};
/// The sizes of attention.
struct DecoderAttentionOptions {
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t groups = 0;
  std::int64_t head_size = 0;
  bool bias = false;  // of q_proj, k_proj and v_proj
  bool output_bias = false;
  std::optional<double> norm_epsilon{};  // not null: q_norm and k_norm normalize each head of queries and keys
  double dropout = 0;
  std::int64_t window = 0;  // not 0: a position attends only to this many positions, including itself
  double initializer_range = 0.02;
  DType dtype = DType::kF32;
};
/// The parts of a decoder and their sizes, which follow from the configuration of a model.
struct DecoderOptions {
  std::string family;  // the first part of the names of Hugging Face's classes, such as Llama
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;
  std::int64_t layers = 0;
  std::int64_t inner = 0;  // the inner width of the feed-forward layers
  std::string activation = "silu";
  bool mlp_bias = false;
  double epsilon = 1e-6;  // of the norms
  bool tie_word_embeddings = false;
  std::optional<std::int64_t> pad_token_id{};
  RopeConfig rope{};
  DecoderAttentionOptions attention{};
  std::vector<std::int64_t> windows{};  // attention.window of each layer; empty: the same in all layers
};

/// Causal self-attention with rotary positions and groups of heads: q_proj, k_proj, v_proj, o_proj, and perhaps q_norm
/// and k_norm.
class DecoderAttention : public Callable<DecoderAttention> {
 public:
  DecoderAttention(const DecoderAttentionOptions& options, std::string class_name);
  Tensor forward(const Tensor& x, const DecoderContext& context);  // [b, t, c] -> [b, t, c]
  /// Shards the groups of heads over the axis, and the dim t of the result.
  void shard_tensor_parallel(const ActivationSharding& split);
  [[nodiscard]] const DecoderAttentionOptions& options() const { return options_; }
  [[nodiscard]] std::string_view class_name() const override { return class_name_; }

 private:
  /// A weight and a bias under their names.
  class Projection : public Module {
   public:
    Projection(const Type& weight, const Type& bias, Dims file_dims, bool has_bias, double deviation);
    [[nodiscard]] Tensor weight() const { return weight_; }
    [[nodiscard]] Tensor bias() const { return bias_; }
    [[nodiscard]] std::string_view class_name() const override { return "Linear"; }

   private:
    Tensor weight_, bias_;
  };
  [[nodiscard]] Tensor projected(const Tensor& x, const Projection& projection) const;
  [[nodiscard]] Tensor mixed(const Tensor& q, const Tensor& k, const Tensor& v, const DecoderContext& context) const;

  DecoderAttentionOptions options_;
  std::string class_name_;
  Projection q_proj_, k_proj_, v_proj_, o_proj_;
  std::optional<RMSNorm> q_norm_, k_norm_;
  std::optional<ActivationSharding> split_;
};

/// Attention and feed-forward layer, with a norm before each and residual connections.
class DecoderLayer : public Callable<DecoderLayer> {
 public:
  DecoderLayer(const DecoderOptions& options, std::int64_t window);
  Tensor forward(const Tensor& x, const DecoderContext& context);
  [[nodiscard]] DecoderAttention& self_attn() { return self_attn_; }
  [[nodiscard]] SwiGLU& mlp() { return mlp_; }
  void shard_tensor_parallel(const ActivationSharding& split);
  /// Such as LlamaDecoderLayer.
  [[nodiscard]] std::string_view class_name() const override { return class_name_; }

 private:
  std::string class_name_;
  DecoderAttention self_attn_;
  SwiGLU mlp_;
  RMSNorm input_layernorm_, post_attention_layernorm_;
};

/// Computes the tables and the mask of a call. Errors: check_causal_inputs(). As in Hugging Face, a text may be longer
/// than max_position_embeddings.
DecoderContext decoder_context(RotaryEmbedding& rotary, const Tensor& tokens, const CausalInputs& inputs, DType dtype);

/// The embedding, layers and final norm: `model`.
class DecoderModel : public Callable<DecoderModel> {
 public:
  explicit DecoderModel(const DecoderOptions& options);
  Tensor forward(const Tensor& tokens, const CausalInputs& inputs = {});  // [b, t] -> [b, t, c]
  /// The hidden states of the last tokens of a step of generation, [b, 1, c].
  Tensor step(const Tensor& tokens, const StepPlace& place, KeyValueCache& cache);
  [[nodiscard]] const std::optional<ActivationSharding>& activation_sharding() const { return split_; }
  [[nodiscard]] Embedding& embed_tokens() { return embed_tokens_; }
  [[nodiscard]] ModuleList<DecoderLayer>& layers() { return layers_; }
  void shard_tensor_parallel(const ActivationSharding& split);
  /// Such as LlamaModel.
  [[nodiscard]] std::string_view class_name() const override { return class_name_; }

 private:
  std::string class_name_;
  Embedding embed_tokens_;
  ModuleList<DecoderLayer> layers_;
  RMSNorm norm_;
  RotaryEmbedding rotary_;
  std::optional<ActivationSharding> split_;
};

/// The language-model head, which may be tied to an embedding: `lm_head`.
class LanguageModelHead : public Callable<LanguageModelHead> {
 public:
  LanguageModelHead(const Embedding& embedding, bool is_tied, double initializer_range);
  Tensor forward(const Tensor& x);  // [b, t, c] -> [b, t, vocabulary]
  /// Shards the vocabulary over the axis.
  void shard_tensor_parallel(const ActivationSharding& split);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] std::string_view class_name() const override { return "Linear"; }

 private:
  bool is_tied_;
  Tensor weight_;
  std::optional<ActivationSharding> split_;
};

/// A decoder with the language-model head. Classes of models add their configurations.
class DecoderForCausalLM : public Callable<DecoderForCausalLM, CausalLM> {
 public:
  explicit DecoderForCausalLM(const DecoderOptions& options);
  [[nodiscard]] DecoderModel& model() { return model_; }
  [[nodiscard]] LanguageModelHead& lm_head() { return lm_head_; }
  [[nodiscard]] CausalShape shape() const override;
  [[nodiscard]] Embedding& input_embedding() override { return model_.embed_tokens(); }
  /// Such as LlamaDecoderLayer.
  [[nodiscard]] std::string_view block_class() const override { return block_class_; }
  /// Shards groups of heads, the inner dim of feed-forward layers and the vocabulary over the axis. Shards the dim t of
  /// the activations between them.
  void shard_tensor_parallel(const Mesh& mesh, const std::string& axis) override;
  Tensor step(const Tensor& ids, const StepPlace& place, KeyValueCache& cache) override;
  [[nodiscard]] CacheSizes cache_sizes() const override;
  [[nodiscard]] std::optional<ActivationSharding> head_sharding() const override {
    return model_.activation_sharding();
  }
  /// Such as LlamaForCausalLM.
  [[nodiscard]] std::string_view class_name() const override { return class_name_; }
  [[nodiscard]] FileNames file_names() const override { return {"model.", {".rotary_emb.inv_freq"}}; }

 protected:
  Output compute(const Tensor& tokens, const CausalInputs& inputs) override;

 private:
  DecoderOptions options_;
  std::string class_name_, block_class_;
  DecoderModel model_;
  LanguageModelHead lm_head_;
};

}  // namespace tessera::nn
