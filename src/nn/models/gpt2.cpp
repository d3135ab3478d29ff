// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/gpt2.h"

#include <cmath>

#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/attention.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {
namespace {

// The projections to the residual stream start with smaller values, as in GPT-2's paper.
double residual_deviation(const GPT2Config& config) {
  return config.initializer_range / std::sqrt(2.0 * static_cast<double>(config.n_layer));
}

const GPT2Config& checked(const GPT2Config& config) {
  config.check();
  return config;
}

// Of attention scores; nullopt: the usual one.
std::optional<double> score_scale(const GPT2Config& config, std::int64_t layer) {
  if (config.scale_attn_weights && !config.scale_attn_by_inverse_layer_idx) return std::nullopt;
  const std::int64_t head_dim = config.n_embd / config.n_head;
  const double scale = config.scale_attn_weights ? 1 / std::sqrt(static_cast<double>(head_dim)) : 1.0;
  return config.scale_attn_by_inverse_layer_idx ? scale / static_cast<double>(layer + 1) : scale;
}

}  // namespace

// ---- attention ----------------------------------------------------------------------------------------------------------

GPT2Attention::FusedProjection::FusedProjection(const GPT2Config& config, Tensor& weight, Tensor& bias) {
  const std::int64_t head_size = config.n_embd / config.n_head;
  weight = add_parameter("weight", Type::array(config.dtype, {config.n_embd, 3, config.n_head, head_size}),
                         normal(0, config.initializer_range), {config.n_embd, 3 * config.n_embd});
  bias = add_parameter("bias", Type::array(config.dtype, {3, config.n_head, head_size}), zeros(), {3 * config.n_embd});
}

GPT2Attention::GPT2Attention(const GPT2Config& config, std::int64_t layer)
    : heads_(config.n_head),
      head_size_(config.n_embd / config.n_head),
      c_attn_(config, qkv_weight_, qkv_bias_),
      c_proj_(config.n_embd, config.n_embd, residual_deviation(config), config.dtype),
      attn_pdrop_(config.attn_pdrop),
      scale_(score_scale(config, layer)),
      resid_dropout_(config.resid_pdrop) {
  add_module("c_attn", c_attn_);
  add_module("c_proj", c_proj_);
  add_module("resid_dropout", resid_dropout_);
}

GPT2Attention::Projections GPT2Attention::project(const Tensor& x) const {
  // [b, t, 3, h, d]
  const Tensor projected = dot(gathered(x, split_), qkv_weight_, {.lhs_contracting = {2}, .rhs_contracting = {0}});
  const Tensor qkv = over_dim(projected + qkv_bias_, 3, split_);
  return {qkv.select(2, 0), qkv.select(2, 1), qkv.select(2, 2)};
}

// Multiplies the heads [b, t, h, d] with c_proj: [b, t, c].
Tensor GPT2Attention::joined(const Tensor& mixed) {
  const Tensor heads = mixed.reshape({mixed.dim(0), mixed.dim(1), heads_ * head_size_});
  return resid_dropout_(over_dim(c_proj_(over_dim(heads, 2, split_)), 1, split_));
}

Tensor GPT2Attention::forward(const Tensor& x, const Tensor& mask) {
  const Projections p = project(x);
  return joined(dot_product_attention(
      p.q, p.k, p.v, {.causal = true, .mask = mask, .scale = scale_, .dropout = is_training() ? attn_pdrop_ : 0}));
}

Tensor GPT2Attention::step(const Tensor& x, std::int64_t layer, const StepPlace& place, KeyValueCache& cache) {
  const TraceScope scope(path(), unit());
  const Projections p = project(x);
  return joined(cached_attention(cache, layer, place, p.q, p.k, p.v, {.scale = scale_}));
}

// ---- block --------------------------------------------------------------------------------------------------------------

GPT2MLP::GPT2MLP(const GPT2Config& config)
    : c_fc_(config.n_embd, config.inner(), config.initializer_range, config.dtype),
      c_proj_(config.inner(), config.n_embd, residual_deviation(config), config.dtype),
      activation_(config.activation_function),
      dropout_(config.resid_pdrop) {
  add_module("c_fc", c_fc_);
  add_module("c_proj", c_proj_);
  add_module("dropout", dropout_);
}
Tensor GPT2MLP::forward(const Tensor& x) {
  const Tensor inner = over_dim(c_fc_(gathered(x, split_)), 2, split_);
  return dropout_(over_dim(c_proj_(activation(inner, activation_)), 1, split_));
}

GPT2Block::GPT2Block(const GPT2Config& config, std::int64_t layer)
    : ln_1_(config.n_embd, config.layer_norm_epsilon, config.dtype),
      attn_(config, layer),
      ln_2_(config.n_embd, config.layer_norm_epsilon, config.dtype),
      mlp_(config) {
  add_module("ln_1", ln_1_);
  add_module("attn", attn_);
  add_module("ln_2", ln_2_);
  add_module("mlp", mlp_);
}
Tensor GPT2Block::forward(const Tensor& x, const Tensor& mask) {
  const Tensor attended = x + (mask.is_null() ? attn_(ln_1_(x)) : attn_(ln_1_(x), mask));
  return attended + mlp_(ln_2_(attended));
}

Tensor GPT2Block::step(const Tensor& x, std::int64_t layer, const StepPlace& place, KeyValueCache& cache) {
  const TraceScope scope(path(), unit());
  const Tensor attended = x + attn_.step(ln_1_(x), layer, place, cache);
  return attended + mlp_(ln_2_(attended));
}

// ---- model --------------------------------------------------------------------------------------------------------------

GPT2Model::GPT2Model(const GPT2Config& config)
    : positions_(config.n_positions),
      wte_(config.vocab_size, config.n_embd, config.initializer_range, config.dtype),
      wpe_(config.n_positions, config.n_embd, config.initializer_range, config.dtype),
      drop_(config.embd_pdrop),
      ln_f_(config.n_embd, config.layer_norm_epsilon, config.dtype) {
  add_module("wte", wte_);
  add_module("wpe", wpe_);
  add_module("drop", drop_);
  for (std::int64_t i = 0; i < config.n_layer; ++i) h_.emplace(config, i);
  add_module("h", h_);
  add_module("ln_f", ln_f_);
}

// The embeddings of the positions: [t, c], or [b, t, c] for given positions.
Tensor GPT2Model::positions_of(const Tensor& tokens, const CausalInputs& inputs) {
  if (!inputs.position_ids.is_null()) return wpe_(inputs.position_ids);
  const std::int64_t t = tokens.dim(1);
  require(t <= positions_, "{} tokens, but n_positions is {}", t, positions_);
  return t == positions_ ? wpe_.weight() : wpe_.weight().slice(0, 0, t);
}

Tensor GPT2Model::forward(const Tensor& tokens, const CausalInputs& inputs) {
  require(tokens.ndim() == 2, "GPT-2 takes tokens [batch, time], got {}", tokens.type());
  check_causal_inputs(tokens, inputs);
  const Tensor mask = seen_keys(inputs.attention_mask);
  const Tensor positions = positions_of(tokens, inputs);
  Tensor x = over_dim(drop_(wte_(tokens) + positions), 1, split_);
  // Hooks get no mask if there is none.
  for (auto& block : h_) x = mask.is_null() ? (*block)(x) : (*block)(x, mask);
  return gathered(ln_f_(x), split_);
}

Tensor GPT2Model::step(const Tensor& tokens, const StepPlace& place, KeyValueCache& cache) {
  const TraceScope scope(path(), unit());
  Tensor x = over_dim(wte_(tokens) + wpe_(place.positions), 1, split_);
  for (int i = 0; i < h_.size(); ++i) x = h_[i].step(x, i, place, cache);
  return gathered(ln_f_(x.slice(1, x.dim(1) - 1, x.dim(1))), split_).select(1, 0);
}

void GPT2Model::shard_activations(const ActivationSharding& split) {
  split_ = split;
  for (auto& block : h_) {
    block->attn().shard_activations(split);
    block->mlp().shard_activations(split);
  }
}

GPT2LMHeadModel::Head::Head(const GPT2Config& config, const Embedding& embedding, Tensor& weight) {
  if (config.tie_word_embeddings) {
    weight = embedding.weight();
    add_shared_parameter("weight", weight);
  } else {
    weight = add_parameter("weight", Type::array(config.dtype, {config.vocab_size, config.n_embd}),
                           normal(0, config.initializer_range));
  }
}

GPT2LMHeadModel::GPT2LMHeadModel(const GPT2Config& config)
    : config_(checked(config)), transformer_(config), lm_head_(config, transformer_.wte(), head_weight_) {
  add_module("transformer", transformer_);
  add_module("lm_head", lm_head_);
}

CausalShape GPT2LMHeadModel::shape() const {
  return {.family = "GPT-2",
          .layers = config_.n_layer,
          .width = config_.n_embd,
          .heads = config_.n_head,
          .key_heads = config_.n_head,
          .head_size = config_.n_embd / config_.n_head,
          .vocabulary = config_.vocab_size,
          .positions = config_.n_positions};
}

std::string GPT2LMHeadModel::config_json() const { return config_.to_json(); }

void GPT2LMHeadModel::shard_tensor_parallel(const Mesh& mesh, const std::string& axis) {
  nn::shard_tensor_parallel(*this, mesh, axis);
}

CausalLM::Output GPT2LMHeadModel::compute(const Tensor& tokens, const CausalInputs& inputs) {
  const Tensor hidden = transformer_(tokens, inputs);
  const TraceScope scope(lm_head_.path(), lm_head_.unit());
  return {over_dim(dot(hidden, head_weight_, {.lhs_contracting = {2}, .rhs_contracting = {1}}), 2,
                   transformer_.activation_sharding())};
}

Tensor GPT2LMHeadModel::step(const Tensor& ids, const StepPlace& place, KeyValueCache& cache) {
  const TraceScope own(path(), unit());
  const Tensor hidden = transformer_.step(ids, place, cache);
  const TraceScope scope(lm_head_.path(), lm_head_.unit());
  return over_dim(dot(hidden, head_weight_, {.lhs_contracting = {1}, .rhs_contracting = {1}}), 1,
                  transformer_.activation_sharding());
}

CacheSizes GPT2LMHeadModel::cache_sizes() const {
  return {.layers = config_.n_layer,
          .key_heads = config_.n_head,
          .head_size = config_.n_embd / config_.n_head,
          .most_positions = config_.n_positions,
          .dtype = config_.dtype};
}

// ---- tensor parallel ----------------------------------------------------------------------------------------------------

void shard_tensor_parallel(GPT2LMHeadModel& model, const Mesh& mesh, const std::string& axis) {
  using Entry = PartitionSpec::Entry;
  const auto spec = [&](int ndim, int dim) {
    std::vector<Entry> entries(static_cast<std::size_t>(ndim));
    at(entries, dim) = Entry(axis);
    return PartitionSpec(std::move(entries));
  };
  for (int i = 0; i < model.transformer().blocks().size(); ++i) {
    GPT2Block& block = model.block(i);
    mark_sharding(block.attn().qkv_weight(), mesh, spec(4, 2));
    mark_sharding(block.attn().qkv_bias(), mesh, spec(3, 1));
    mark_sharding(block.attn().c_proj().weight(), mesh, spec(2, 0));
    mark_sharding(block.mlp().c_fc().weight(), mesh, spec(2, 1));
    mark_sharding(block.mlp().c_fc().bias(), mesh, spec(1, 0));
    mark_sharding(block.mlp().c_proj().weight(), mesh, spec(2, 0));
  }
  model.transformer().shard_activations({mesh, axis});
  mark_sharding(model.transformer().wte().weight(), mesh, spec(2, 0));
  if (!same_variable(model.head_weight(), model.transformer().wte().weight()))
    mark_sharding(model.head_weight(), mesh, spec(2, 0));
}

}  // namespace tessera::nn
