// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/mixtral.h"

#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::nn {
namespace {

const MixtralConfig& checked_mixtral(const MixtralConfig& config) {
  config.check();
  return config;
}

DecoderAttentionOptions attention_of(const MixtralConfig& config) {
  return {.width = config.hidden_size,
          .heads = config.num_attention_heads,
          .groups = config.groups(),
          .head_size = config.head_size(),
          .dropout = config.attention_dropout,
          .window = config.sliding_window,
          .initializer_range = config.initializer_range,
          .dtype = config.dtype};
}

SparseMoe::Options moe_of(const MixtralConfig& config) {
  return {.experts = config.num_local_experts,
          .top_k = config.num_experts_per_tok,
          .capacity_factor = config.expert_capacity_factor,
          .jitter = config.router_jitter_noise,
          .activation = config.hidden_act,
          .standard_deviation = config.initializer_range,
          .dtype = config.dtype};
}

RMSNorm::Options norm_of(const MixtralConfig& config) {
  return {.epsilon = config.rms_norm_eps, .dtype = config.dtype};
}

}  // namespace

MixtralDecoderLayer::MixtralDecoderLayer(const MixtralConfig& config)
    : self_attn_(attention_of(config), "MixtralAttention"),
      block_sparse_moe_(config.hidden_size, config.intermediate_size, moe_of(config)),
      input_layernorm_(config.hidden_size, norm_of(config)),
      post_attention_layernorm_(config.hidden_size, norm_of(config)) {
  register_module("self_attn", self_attn_);
  register_module("block_sparse_moe", block_sparse_moe_);
  register_module("input_layernorm", input_layernorm_);
  register_module("post_attention_layernorm", post_attention_layernorm_);
}

MixtralDecoderLayer::Output MixtralDecoderLayer::forward(const Tensor& x, const DecoderContext& context) {
  const Tensor attended = x + self_attn_(input_layernorm_(x), context);
  const SparseMoe::Output mixed = block_sparse_moe_(post_attention_layernorm_(attended));
  return {attended + mixed.output, mixed.routing};
}

void MixtralDecoderLayer::shard_tensor_parallel(const ActivationSharding& split) {
  self_attn_.shard_tensor_parallel(split);
  nn::shard_tensor_parallel(block_sparse_moe_, split);
}

MixtralModel::MixtralModel(const MixtralConfig& config)
    : embed_tokens_(
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

MixtralModel::Output MixtralModel::forward(const Tensor& tokens, const CausalInputs& inputs) {
  Output out;
  Tensor x = over_dim(embed_tokens_(tokens), 1, split_);
  const DecoderContext context = decoder_context(rotary_, tokens, inputs, x.dtype());
  for (auto& layer : layers_) {
    const MixtralDecoderLayer::Output next = (*layer)(x, context);
    x = next.hidden;
    out.routing.push_back(next.routing);
  }
  out.hidden = gathered(norm_(x), split_);
  return out;
}

Tensor MixtralModel::step(const Tensor& tokens, const StepPlace& place, KeyValueCache& cache) {
  const TraceScope scope(path(), unit());
  Tensor x = over_dim(embed_tokens_(tokens), 1, split_);
  DecoderContext context{.rotary = rotary_(place.positions, x.dtype()), .place = &place, .cache = &cache};
  for (auto& layer : layers_) {
    x = (*layer)(x, context).hidden;
    ++context.layer;
  }
  return gathered(norm_(x.slice(1, x.dim(1) - 1, x.dim(1))), split_);
}

void MixtralModel::shard_tensor_parallel(const ActivationSharding& split) {
  split_ = split;
  for (auto& layer : layers_) layer->shard_tensor_parallel(split);
  mark_sharding(embed_tokens_.weight(), split.mesh, {PartitionSpec::Entry(split.axis), PartitionSpec::Entry()});
}

MixtralForCausalLM::MixtralForCausalLM(const MixtralConfig& config)
    : config_(checked_mixtral(config)),
      model_(config),
      lm_head_(model_.embed_tokens(), config.tie_word_embeddings, config.initializer_range) {
  register_module("model", model_);
  register_module("lm_head", lm_head_);
}

CausalShape MixtralForCausalLM::shape() const {
  return {.family = "Mixtral",
          .layers = config_.num_hidden_layers,
          .width = config_.hidden_size,
          .heads = config_.num_attention_heads,
          .key_heads = config_.groups(),
          .head_size = config_.head_size(),
          .vocabulary = config_.vocab_size,
          .positions = config_.max_position_embeddings};
}

CausalLM::Output MixtralForCausalLM::compute(const Tensor& tokens, const CausalInputs& inputs) {
  const MixtralModel::Output body = model_(tokens, inputs);
  Output out{lm_head_(body.hidden)};
  if (config_.output_router_logits)
    out.auxiliary = load_balancing_loss(body.routing, inputs.attention_mask) * config_.router_aux_loss_coef;
  if (config_.router_z_loss_coef == 0) return out;
  const Tensor z_loss = router_z_loss(body.routing) * config_.router_z_loss_coef;
  out.auxiliary = out.auxiliary.is_null() ? z_loss : out.auxiliary + z_loss;
  return out;
}

Tensor MixtralForCausalLM::step(const Tensor& ids, const StepPlace& place, KeyValueCache& cache) {
  const TraceScope scope(path(), unit());
  return lm_head_(model_.step(ids, place, cache)).select(1, 0);
}

CacheSizes MixtralForCausalLM::cache_sizes() const {
  return {.layers = config_.num_hidden_layers,
          .key_heads = config_.groups(),
          .head_size = config_.head_size(),
          .most_positions = config_.max_position_embeddings,
          .dtype = config_.dtype};
}

void MixtralForCausalLM::shard_tensor_parallel(const Mesh& mesh, const std::string& axis) {
  model_.shard_tensor_parallel({mesh, axis});
  lm_head_.shard_tensor_parallel({mesh, axis});
}

void MixtralForCausalLM::shard_experts(const Mesh& mesh, const std::string& axis) {
  for (auto& layer : model_.layers()) nn::shard_experts(layer->block_sparse_moe(), mesh, axis);
}

}  // namespace tessera::nn
