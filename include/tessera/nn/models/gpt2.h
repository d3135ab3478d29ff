// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al., 2019) with Hugging Face's names. Attention weights are [C, 3, H, D] so that heads can be
// sharded; files hold [C, 3C].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/activation_sharding.h"
#include "tessera/nn/layers.h"
#include "tessera/nn/models/model.h"

namespace tessera::nn {

/// Hugging Face's GPT-2 configuration. Keys that Tessera does not use are kept, and to_json() writes them back.
struct GPT2Config {
  std::int64_t vocab_size = 50257;
  std::int64_t n_positions = 1024;
  std::int64_t n_embd = 768;
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  std::int64_t n_inner = 0;  // 0: 4 n_embd
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool tie_word_embeddings = true;
  bool scale_attn_weights = true;                // false: scores are not divided by the root of the size of a head
  bool scale_attn_by_inverse_layer_idx = false;  // true: the scores of layer i are divided by i + 1
  DType dtype = DType::kF32;                     // of parameters; not part of the file
  std::string source_json;                       // the text of the file, for keys that are not used here

  /// Errors name `origin`: not JSON, a key that Hugging Face does not have (with the nearest one), a value of the wrong
  /// type or out of range, n_embd not divisible by n_head, an unknown activation, an unsupported variant of GPT-2.
  static GPT2Config from_json(const std::string& text, const std::string& origin);
  static GPT2Config from_json(const std::string& text);
  static GPT2Config from_file(const std::string& path);
  /// Returns all keys that were read, with the values of the fields above.
  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] std::int64_t inner() const { return n_inner == 0 ? 4 * n_embd : n_inner; }
  void check() const;
};

/// Causal self-attention.
class GPT2Attention : public Callable<GPT2Attention> {
 public:
  /// `layer` is the index of the layer, which scale_attn_by_inverse_layer_idx needs.
  explicit GPT2Attention(const GPT2Config& config, std::int64_t layer = 0);
  /// x [b, t, c] -> [b, t, c]. `mask` are booleans [b, 1, 1, t]: false for padding; null: none.
  Tensor forward(const Tensor& x, const Tensor& mask = {});
  /// The same for the tokens of a step of generation.
  Tensor step(const Tensor& x, std::int64_t layer, const StepPlace& place, KeyValueCache& cache);
  /// [C, 3, H, D] and [3, H, D].
  [[nodiscard]] Tensor qkv_weight() const { return qkv_weight_; }
  [[nodiscard]] Tensor qkv_bias() const { return qkv_bias_; }
  [[nodiscard]] Conv1D& c_proj() { return c_proj_; }
  /// See GPT2Model::shard_activations.
  void shard_activations(const ActivationSharding& split) { split_ = split; }
  [[nodiscard]] std::string_view class_name() const override { return "GPT2Attention"; }

 private:
  struct Projections {
    Tensor q, k, v;  // [b, t, h, d]
  };
  [[nodiscard]] Projections project(const Tensor& x) const;
  Tensor joined(const Tensor& mixed);
  /// Holds c_attn.weight and c_attn.bias under their names.
  class FusedProjection : public Module {
   public:
    FusedProjection(const GPT2Config& config, Tensor& weight, Tensor& bias);
    [[nodiscard]] std::string_view class_name() const override { return "Conv1D"; }
  };
  std::int64_t heads_, head_size_;
  Tensor qkv_weight_, qkv_bias_;
  FusedProjection c_attn_;
  Conv1D c_proj_;
  double attn_pdrop_;
  std::optional<double> scale_;  // of the scores; nullopt: 1 / sqrt(head_size)
  Dropout resid_dropout_;
  std::optional<ActivationSharding> split_;
};

/// The feed-forward layer of a block: c_fc, the activation, c_proj and dropout.
class GPT2MLP : public Callable<GPT2MLP> {
 public:
  explicit GPT2MLP(const GPT2Config& config);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Conv1D& c_fc() { return c_fc_; }
  [[nodiscard]] Conv1D& c_proj() { return c_proj_; }
  /// See GPT2Model::shard_activations.
  void shard_activations(const ActivationSharding& split) { split_ = split; }
  [[nodiscard]] std::string_view class_name() const override { return "GPT2MLP"; }

 private:
  Conv1D c_fc_, c_proj_;
  std::string activation_;
  Dropout dropout_;
  std::optional<ActivationSharding> split_;
};

/// Attention and MLP, with a norm before each and residual connections.
class GPT2Block : public Callable<GPT2Block> {
 public:
  explicit GPT2Block(const GPT2Config& config, std::int64_t layer = 0);
  Tensor forward(const Tensor& x, const Tensor& mask = {});
  Tensor step(const Tensor& x, std::int64_t layer, const StepPlace& place, KeyValueCache& cache);
  [[nodiscard]] GPT2Attention& attn() { return attn_; }
  [[nodiscard]] GPT2MLP& mlp() { return mlp_; }
  [[nodiscard]] std::string_view class_name() const override { return "GPT2Block"; }

 private:
  LayerNorm ln_1_;
  GPT2Attention attn_;
  LayerNorm ln_2_;
  GPT2MLP mlp_;
};

/// The blocks, embeddings and final norm: `transformer`.
class GPT2Model : public Callable<GPT2Model> {
 public:
  explicit GPT2Model(const GPT2Config& config);
  Tensor forward(const Tensor& tokens, const CausalInputs& inputs = {});  // [b, t] -> [b, t, c]
  /// The hidden states of the last tokens of a step of generation, [b, c].
  Tensor step(const Tensor& tokens, const StepPlace& place, KeyValueCache& cache);
  [[nodiscard]] ModuleList<GPT2Block>& blocks() { return h_; }
  [[nodiscard]] Embedding& wte() { return wte_; }
  [[nodiscard]] Embedding& wpe() { return wpe_; }
  [[nodiscard]] LayerNorm& ln_f() { return ln_f_; }
  /// Tensor parallelism with sequence parallelism, as in Megatron-LM (Korthikanti et al., 2022). In the products of a
  /// block, activations are sharded by heads and columns. Between the products, the dim t is sharded, so that norms,
  /// dropout and residual sums are not computed twice. An all-reduce becomes a reduce-scatter and a later all-gather,
  /// which together receive as many bytes.
  void shard_activations(const ActivationSharding& split);
  [[nodiscard]] const std::optional<ActivationSharding>& activation_sharding() const { return split_; }
  [[nodiscard]] std::string_view class_name() const override { return "GPT2Model"; }

 private:
  [[nodiscard]] Tensor positions_of(const Tensor& tokens, const CausalInputs& inputs);

  std::int64_t positions_;
  Embedding wte_, wpe_;
  Dropout drop_;
  ModuleList<GPT2Block> h_;
  LayerNorm ln_f_;
  std::optional<ActivationSharding> split_;
};

/// GPT-2 with the language-model head. The head is tied to the token embedding unless tie_word_embeddings is false.
class GPT2LMHeadModel : public Callable<GPT2LMHeadModel, CausalLM> {
 public:
  using Config = GPT2Config;
  explicit GPT2LMHeadModel(const GPT2Config& config);
  [[nodiscard]] CausalShape shape() const override;
  [[nodiscard]] std::string config_json() const override;
  [[nodiscard]] std::string_view block_class() const override { return "GPT2Block"; }
  [[nodiscard]] Embedding& input_embedding() override { return transformer_.wte(); }
  void shard_tensor_parallel(const Mesh& mesh, const std::string& axis) override;
  Tensor step(const Tensor& ids, const StepPlace& place, KeyValueCache& cache) override;
  [[nodiscard]] CacheSizes cache_sizes() const override;
  [[nodiscard]] std::optional<ActivationSharding> head_sharding() const override {
    return transformer_.activation_sharding();
  }
  [[nodiscard]] GPT2Model& transformer() { return transformer_; }
  [[nodiscard]] GPT2Block& block(int i) { return transformer_.blocks()[i]; }
  [[nodiscard]] const GPT2Config& config() const { return config_; }
  [[nodiscard]] Tensor head_weight() const { return head_weight_; }
  [[nodiscard]] std::string_view class_name() const override { return "GPT2LMHeadModel"; }
  /// Ignores the masks in files of Hugging Face, because they are not parameters here.
  [[nodiscard]] FileNames file_names() const override { return {"transformer.", {".attn.bias", ".attn.masked_bias"}}; }

 protected:
  Output compute(const Tensor& tokens, const CausalInputs& inputs) override;

 private:
  class Head : public Module {
   public:
    Head(const GPT2Config& config, const Embedding& embedding, Tensor& weight);
    [[nodiscard]] std::string_view class_name() const override { return "Linear"; }
  };
  GPT2Config config_;
  GPT2Model transformer_;
  Tensor head_weight_;
  Head lm_head_;
};

/// Shards a model over one axis: c_attn by heads, c_fc by columns, both c_proj by rows, wte by vocabulary. Also calls
/// GPT2Model::shard_activations().
void shard_tensor_parallel(GPT2LMHeadModel& model, const Mesh& mesh, const std::string& axis);

}  // namespace tessera::nn
