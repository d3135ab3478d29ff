// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/llama.h"

#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::nn {
namespace {

const LlamaConfig& checked_llama(const LlamaConfig& config) {
  config.check();
  return config;
}

DecoderAttentionOptions attention_of(const LlamaConfig& config) {
  return {.width = config.hidden_size,
          .heads = config.num_attention_heads,
          .groups = config.groups(),
          .head_size = config.head_size(),
          .bias = config.attention_bias,
          .dropout = config.attention_dropout,
          .initializer_range = config.initializer_range,
          .dtype = config.dtype};
}

RMSNorm::Options norm_of(const LlamaConfig& config) { return {.epsilon = config.rms_norm_eps, .dtype = config.dtype}; }

}  // namespace

LlamaDecoderLayer::LlamaDecoderLayer(const LlamaConfig& config)
    : self_attn_(attention_of(config)),
      mlp_(config.hidden_size, config.intermediate_size,
           {.activation = config.hidden_act,
            .bias = config.mlp_bias,
            .dtype = config.dtype,
            .standard_deviation = config.initializer_range}),
      input_layernorm_(config.hidden_size, norm_of(config)),
      post_attention_layernorm_(config.hidden_size, norm_of(config)) {
  register_module("self_attn", self_attn_);
  register_module("mlp", mlp_);
  register_module("input_layernorm", input_layernorm_);
  register_module("post_attention_layernorm", post_attention_layernorm_);
}

Tensor LlamaDecoderLayer::forward(const Tensor& x, const DecoderContext& context) {
  const Tensor attended = x + self_attn_(input_layernorm_(x), context);
  return attended + mlp_(post_attention_layernorm_(attended));
}

void LlamaDecoderLayer::shard_tensor_parallel(const ActivationSharding& split) {
  self_attn_.shard_tensor_parallel(split);
  mlp_.shard_tensor_parallel(split);
}

LlamaModel::LlamaModel(const LlamaConfig& config)
    : positions_(config.max_position_embeddings),
      embed_tokens_(
          config.vocab_size, config.hidden_size,
          {.padding_idx = config.pad_token_id, .standard_deviation = config.initializer_range, .dtype = config.dtype}),
      norm_(config.hidden_size, norm_of(config)),
      rotary_(config.head_size(), config.max_position_embeddings, config.rope) {
  register_module("embed_tokens", embed_tokens_);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) layers_.emplace(config);
  register_module("layers", layers_);
  register_module("norm", norm_);
  register_module("rotary_emb", rotary_);
}

Tensor LlamaModel::forward(const Tensor& tokens, const CausalInputs& inputs) {
  Tensor x = over_dim(embed_tokens_(tokens), 1, split_);
  const DecoderContext context = decoder_context(rotary_, tokens, inputs, positions_, x.dtype());
  for (auto& layer : layers_) x = (*layer)(x, context);
  return gathered(norm_(x), split_);
}

Tensor LlamaModel::step(const Tensor& tokens, const StepPlace& place, KeyValueCache& cache) {
  const TraceScope scope(path(), unit());
  Tensor x = over_dim(embed_tokens_(tokens), 1, split_);
  DecoderContext context{.rotary = rotary_(place.positions, x.dtype()), .place = &place, .cache = &cache};
  for (auto& layer : layers_) {
    x = (*layer)(x, context);
    ++context.layer;
  }
  return gathered(norm_(x.slice(1, x.dim(1) - 1, x.dim(1))), split_);
}

void LlamaModel::shard_tensor_parallel(const ActivationSharding& split) {
  split_ = split;
  for (auto& layer : layers_) layer->shard_tensor_parallel(split);
  mark_sharding(embed_tokens_.weight(), split.mesh, {PartitionSpec::Entry(split.axis), PartitionSpec::Entry()});
}

LlamaForCausalLM::LlamaForCausalLM(const LlamaConfig& config)
    : config_(checked_llama(config)),
      model_(config),
      lm_head_(model_.embed_tokens(), config.tie_word_embeddings, config.initializer_range) {
  register_module("model", model_);
  register_module("lm_head", lm_head_);
}

CausalShape LlamaForCausalLM::shape() const {
  return {"Llama",
          config_.num_hidden_layers,
          config_.hidden_size,
          config_.num_attention_heads,
          config_.groups(),
          config_.vocab_size,
          config_.max_position_embeddings};
}

CausalLM::Output LlamaForCausalLM::compute(const Tensor& tokens, const CausalInputs& inputs) {
  return {lm_head_(model_(tokens, inputs))};
}

Tensor LlamaForCausalLM::step(const Tensor& ids, const StepPlace& place, KeyValueCache& cache) {
  const TraceScope scope(path(), unit());
  return lm_head_(model_.step(ids, place, cache)).select(1, 0);
}

CacheSizes LlamaForCausalLM::cache_sizes() const {
  return {.layers = config_.num_hidden_layers,
          .key_heads = config_.groups(),
          .head_size = config_.head_size(),
          .most_positions = config_.max_position_embeddings,
          .dtype = config_.dtype};
}

void LlamaForCausalLM::shard_tensor_parallel(const Mesh& mesh, const std::string& axis) {
  model_.shard_tensor_parallel({mesh, axis});
  lm_head_.shard_tensor_parallel({mesh, axis});
}

}  // namespace tessera::nn
