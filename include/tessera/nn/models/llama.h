// SPDX-License-Identifier: Apache-2.0
// Llama (Touvron et al., 2023) with Hugging Face's names: RMS norms, rotary positions, groups of heads that share keys,
// gated feed-forward layers. Attention weights are [g, r, d, c] and [g, d, c], so that groups of heads can be sharded;
// files hold [g r d, c] and [g d, c].
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/nn/layers.h"
#include "tessera/nn/models/model.h"

namespace tessera::nn {

/// Hugging Face's LlamaConfig. Keys that Tessera does not use are kept, and to_json() writes them back.
struct LlamaConfig {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 11008;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::int64_t num_key_value_heads = 0;  // 0: num_attention_heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::string hidden_act = "silu";
  std::int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  double attention_dropout = 0;
  bool mlp_bias = false;
  std::optional<std::int64_t> pad_token_id{};  // this row of the embedding gets no gradient
  RopeConfig rope{};
  DType dtype = DType::kF32;  // of parameters; not part of the file
  std::string source_json;    // the text of the file, for keys that are not used here

  /// Two layers of 32 channels, 4 heads and 2 groups, for tests.
  static LlamaConfig tiny(std::int64_t vocab_size = 256);
  /// Llama 2 7B, Llama 3 8B, Llama 3.2 1B (tied, with scaled positions) and TinyLlama 1.1B.
  static LlamaConfig llama2_7b();
  static LlamaConfig llama3_8b();
  static LlamaConfig llama32_1b();
  static LlamaConfig tiny_llama_1b();

  /// Errors name `origin`: not JSON, a key that Hugging Face does not have (with the nearest one), a value of the wrong
  /// type or out of range, heads that do not fit together, an unknown activation or kind of position scaling.
  static LlamaConfig from_json(const std::string& text, const std::string& origin = "Llama configuration");
  static LlamaConfig from_file(const std::string& path);
  /// Returns all keys that were read, with the values of the fields above.
  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] std::int64_t groups() const {
    return num_key_value_heads == 0 ? num_attention_heads : num_key_value_heads;
  }
  [[nodiscard]] std::int64_t head_size() const { return head_dim == 0 ? hidden_size / num_attention_heads : head_dim; }
  void check() const;
};

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
  bool bias = false;
  double dropout = 0;
  std::int64_t window = 0;  // not 0: a position sees this many positions, itself included
  double initializer_range = 0.02;
  DType dtype = DType::kF32;
};

/// Causal self-attention with rotary positions and groups of heads: q_proj, k_proj, v_proj, o_proj.
class DecoderAttention : public Callable<DecoderAttention> {
 public:
  explicit DecoderAttention(const DecoderAttentionOptions& options, std::string_view class_name = "LlamaAttention");
  Tensor forward(const Tensor& x, const DecoderContext& context);  // [b, t, c] -> [b, t, c]
  /// Shards the groups of heads over the axis, and the dim t of the result.
  void shard_tensor_parallel(const ActivationSharding& split);
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
  std::string_view class_name_;
  Projection q_proj_, k_proj_, v_proj_, o_proj_;
  std::optional<ActivationSharding> split_;
};

class LlamaDecoderLayer : public Callable<LlamaDecoderLayer> {
 public:
  explicit LlamaDecoderLayer(const LlamaConfig& config);
  Tensor forward(const Tensor& x, const DecoderContext& context);
  [[nodiscard]] DecoderAttention& self_attn() { return self_attn_; }
  [[nodiscard]] SwiGLU& mlp() { return mlp_; }
  void shard_tensor_parallel(const ActivationSharding& split);
  [[nodiscard]] std::string_view class_name() const override { return "LlamaDecoderLayer"; }

 private:
  DecoderAttention self_attn_;
  SwiGLU mlp_;
  RMSNorm input_layernorm_, post_attention_layernorm_;
};

/// Computes the tables and the mask of a call. Errors: there are more positions than `positions`; the inputs do not fit
/// the tokens.
DecoderContext decoder_context(RotaryEmbedding& rotary, const Tensor& tokens, const CausalInputs& inputs,
                               std::int64_t positions, DType dtype);

/// The embedding, layers and final norm: `model`.
class LlamaModel : public Callable<LlamaModel> {
 public:
  explicit LlamaModel(const LlamaConfig& config);
  Tensor forward(const Tensor& tokens, const CausalInputs& inputs = {});  // [b, t] -> [b, t, c]
  /// The hidden states of the last tokens of a step of generation, [b, 1, c].
  Tensor step(const Tensor& tokens, const StepPlace& place, KeyValueCache& cache);
  [[nodiscard]] const std::optional<ActivationSharding>& activation_sharding() const { return split_; }
  [[nodiscard]] Embedding& embed_tokens() { return embed_tokens_; }
  [[nodiscard]] ModuleList<LlamaDecoderLayer>& layers() { return layers_; }
  void shard_tensor_parallel(const ActivationSharding& split);
  [[nodiscard]] std::string_view class_name() const override { return "LlamaModel"; }

 private:
  std::int64_t positions_;
  Embedding embed_tokens_;
  ModuleList<LlamaDecoderLayer> layers_;
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

/// Llama with the language-model head.
class LlamaForCausalLM : public Callable<LlamaForCausalLM, CausalLM> {
 public:
  using Config = LlamaConfig;
  explicit LlamaForCausalLM(const LlamaConfig& config);
  [[nodiscard]] const LlamaConfig& config() const { return config_; }
  [[nodiscard]] LlamaModel& model() { return model_; }
  [[nodiscard]] LanguageModelHead& lm_head() { return lm_head_; }
  [[nodiscard]] CausalShape shape() const override;
  [[nodiscard]] std::string config_json() const override { return config_.to_json(); }
  [[nodiscard]] std::string_view block_class() const override { return "LlamaDecoderLayer"; }
  /// Shards groups of heads, the inner dim of feed-forward layers and the vocabulary over the axis. Shards the dim t of
  /// the activations between them.
  void shard_tensor_parallel(const Mesh& mesh, const std::string& axis) override;
  Tensor step(const Tensor& ids, const StepPlace& place, KeyValueCache& cache) override;
  [[nodiscard]] CacheSizes cache_sizes() const override;
  [[nodiscard]] std::optional<ActivationSharding> head_sharding() const override {
    return model_.activation_sharding();
  }
  [[nodiscard]] std::string_view class_name() const override { return "LlamaForCausalLM"; }
  [[nodiscard]] FileNames file_names() const override { return {"model.", {".rotary_emb.inv_freq"}}; }

 protected:
  Output compute(const Tensor& tokens, const CausalInputs& inputs) override;

 private:
  LlamaConfig config_;
  LlamaModel model_;
  LanguageModelHead lm_head_;
};

}  // namespace tessera::nn
