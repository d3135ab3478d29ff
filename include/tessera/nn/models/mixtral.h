// SPDX-License-Identifier: Apache-2.0
// Mixtral (Jiang et al., 2024) with Hugging Face's names: Llama's attention, and a sparse mixture of experts in place
// of the feed-forward layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/nn/models/decoder.h"
#include "tessera/nn/moe.h"

namespace tessera::nn {

/// Hugging Face's MixtralConfig. Keys that Tessera does not use are kept, and to_json() writes them back.
struct MixtralConfig {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 14336;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::int64_t num_key_value_heads = 8;
  std::int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  std::string hidden_act = "silu";
  std::int64_t max_position_embeddings = 131072;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = false;
  std::int64_t sliding_window = 0;  // 0: none
  double attention_dropout = 0;
  std::int64_t num_local_experts = 8;
  std::int64_t num_experts_per_tok = 2;
  bool output_router_logits = false;  // adds the load-balancing loss
  double router_aux_loss_coef = 0.001;
  double router_jitter_noise = 0;
  /// The capacity of experts (SparseMoe::Options::capacity_factor; 0: dropless), and the coefficient of the router
  /// z-loss. Hugging Face's class does not use these keys, but keeps them.
  double expert_capacity_factor = 0;
  double router_z_loss_coef = 0;
  std::optional<std::int64_t> pad_token_id{};
  RopeConfig rope{.theta = 1000000};
  DType dtype = DType::kF32;  // of parameters; not part of the file
  std::string source_json;    // the text of the file, for keys that are not used here

  /// Two layers of 32 channels, 4 heads, 2 groups and 4 experts, for tests.
  static MixtralConfig tiny(std::int64_t vocab_size = 256);
  /// Mixtral-8x7B-v0.1.
  static MixtralConfig mixtral_8x7b();

  /// Errors: those of LlamaConfig::from_json(); experts per token outside of 1 … num_local_experts; negative
  /// coefficients.
  static MixtralConfig from_json(const std::string& text, const std::string& origin = "Mixtral configuration");
  static MixtralConfig from_file(const std::string& path);
  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] std::int64_t groups() const {
    return num_key_value_heads == 0 ? num_attention_heads : num_key_value_heads;
  }
  [[nodiscard]] std::int64_t head_size() const { return head_dim == 0 ? hidden_size / num_attention_heads : head_dim; }
  void check() const;
};

/// Attention and a mixture of experts, with a norm before each and residual connections.
class MixtralDecoderLayer : public Callable<MixtralDecoderLayer> {
 public:
  struct Output {
    Tensor hidden;
    Routing routing;
  };
  explicit MixtralDecoderLayer(const MixtralConfig& config);
  Output forward(const Tensor& x, const DecoderContext& context);
  [[nodiscard]] DecoderAttention& self_attn() { return self_attn_; }
  [[nodiscard]] SparseMoe& block_sparse_moe() { return block_sparse_moe_; }
  void shard_tensor_parallel(const ActivationSharding& split);
  [[nodiscard]] std::string_view class_name() const override { return "MixtralDecoderLayer"; }

 private:
  DecoderAttention self_attn_;
  SparseMoe block_sparse_moe_;
  RMSNorm input_layernorm_, post_attention_layernorm_;
};

/// The embedding, layers and final norm: `model`.
class MixtralModel : public Callable<MixtralModel> {
 public:
  struct Output {
    Tensor hidden;
    std::vector<Routing> routing;  // of each layer
  };
  explicit MixtralModel(const MixtralConfig& config);
  Output forward(const Tensor& tokens, const CausalInputs& inputs = {});
  /// The hidden states of the last tokens of a step of generation, [b, 1, c].
  Tensor step(const Tensor& tokens, const StepPlace& place, KeyValueCache& cache);
  [[nodiscard]] const std::optional<ActivationSharding>& activation_sharding() const { return split_; }
  [[nodiscard]] Embedding& embed_tokens() { return embed_tokens_; }
  [[nodiscard]] ModuleList<MixtralDecoderLayer>& layers() { return layers_; }
  void shard_tensor_parallel(const ActivationSharding& split);
  [[nodiscard]] std::string_view class_name() const override { return "MixtralModel"; }

 private:
  Embedding embed_tokens_;
  ModuleList<MixtralDecoderLayer> layers_;
  RMSNorm norm_;
  RotaryEmbedding rotary_;
  std::optional<ActivationSharding> split_;
};

/// Mixtral with the language-model head. As in Hugging Face, the loss contains the load-balancing loss if
/// output_router_logits is set. It contains the router z-loss if router_z_loss_coef is not 0.
class MixtralForCausalLM : public Callable<MixtralForCausalLM, CausalLM> {
 public:
  using Config = MixtralConfig;
  explicit MixtralForCausalLM(const MixtralConfig& config);
  [[nodiscard]] const MixtralConfig& config() const { return config_; }
  [[nodiscard]] MixtralModel& model() { return model_; }
  [[nodiscard]] LanguageModelHead& lm_head() { return lm_head_; }
  [[nodiscard]] CausalShape shape() const override;
  [[nodiscard]] Embedding& input_embedding() override { return model_.embed_tokens(); }
  [[nodiscard]] std::string config_json() const override { return config_.to_json(); }
  [[nodiscard]] std::string_view block_class() const override { return "MixtralDecoderLayer"; }
  /// Shards groups of heads, the inner dim of each expert and the vocabulary over the axis. Shards the dim t of the
  /// activations between them.
  void shard_tensor_parallel(const Mesh& mesh, const std::string& axis) override;
  /// Shards the experts of every layer over the axis (nn::shard_experts).
  void shard_experts(const Mesh& mesh, const std::string& axis) override;
  Tensor step(const Tensor& ids, const StepPlace& place, KeyValueCache& cache) override;
  [[nodiscard]] CacheSizes cache_sizes() const override;
  [[nodiscard]] std::optional<ActivationSharding> head_sharding() const override {
    return model_.activation_sharding();
  }
  [[nodiscard]] std::string_view class_name() const override { return "MixtralForCausalLM"; }
  [[nodiscard]] FileNames file_names() const override { return {"model.", {".rotary_emb.inv_freq"}}; }

 protected:
  Output compute(const Tensor& tokens, const CausalInputs& inputs) override;

 private:
  MixtralConfig config_;
  MixtralModel model_;
  LanguageModelHead lm_head_;
};

}  // namespace tessera::nn
