// SPDX-License-Identifier: Apache-2.0
// The layers of a decoder, and the model that consists of them.
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/models/decoder.h"

namespace tessera::nn {
namespace {

DecoderAttentionOptions with_window(DecoderAttentionOptions options, std::int64_t window) {
  options.window = window;
  return options;
}

std::int64_t window_of(const DecoderOptions& options, std::int64_t layer) {
  return options.windows.empty() ? options.attention.window : at(options.windows, layer);
}

SwiGLU::Options mlp_of(const DecoderOptions& options) {
  return {.activation = options.activation,
          .bias = options.mlp_bias,
          .dtype = options.attention.dtype,
          .standard_deviation = options.attention.initializer_range};
}

RMSNorm::Options norm_of(const DecoderOptions& options) {
  return {.epsilon = options.epsilon, .dtype = options.attention.dtype};
}

}  // namespace

DecoderLayer::DecoderLayer(const DecoderOptions& options, std::int64_t window)
    : class_name_(options.family + "DecoderLayer"),
      self_attn_(with_window(options.attention, window), options.family + "Attention"),
      mlp_(options.attention.width, options.inner, mlp_of(options)),
      input_layernorm_(options.attention.width, norm_of(options)),
      post_attention_layernorm_(options.attention.width, norm_of(options)) {
  register_module("self_attn", self_attn_);
  register_module("mlp", mlp_);
  register_module("input_layernorm", input_layernorm_);
  register_module("post_attention_layernorm", post_attention_layernorm_);
}

Tensor DecoderLayer::forward(const Tensor& x, const DecoderContext& context) {
  const Tensor attended = x + self_attn_(input_layernorm_(x), context);
  return attended + mlp_(post_attention_layernorm_(attended));
}

void DecoderLayer::shard_tensor_parallel(const ActivationSharding& split) {
  self_attn_.shard_tensor_parallel(split);
  mlp_.shard_tensor_parallel(split);
}

DecoderModel::DecoderModel(const DecoderOptions& options)
    : class_name_(options.family + "Model"),
      embed_tokens_(options.vocabulary, options.attention.width,
                    {.padding_idx = options.pad_token_id,
                     .standard_deviation = options.attention.initializer_range,
                     .dtype = options.attention.dtype}),
      norm_(options.attention.width, norm_of(options)),
      rotary_(options.attention.head_size, options.positions, options.rope) {
  register_module("embed_tokens", embed_tokens_);
  for (std::int64_t i = 0; i < options.layers; ++i) layers_.emplace(options, window_of(options, i));
  register_module("layers", layers_);
  register_module("norm", norm_);
  register_module("rotary_emb", rotary_);
}

Tensor DecoderModel::forward(const Tensor& tokens, const CausalInputs& inputs) {
  Tensor x = over_dim(embed_tokens_(tokens), 1, split_);
  const DecoderContext context = decoder_context(rotary_, tokens, inputs, x.dtype());
  for (auto& layer : layers_) x = (*layer)(x, context);
  return gathered(norm_(x), split_);
}

Tensor DecoderModel::step(const Tensor& tokens, const StepPlace& place, KeyValueCache& cache) {
  const TraceScope scope(path(), unit());
  Tensor x = over_dim(embed_tokens_(tokens), 1, split_);
  DecoderContext context{.rotary = rotary_(place.positions, x.dtype()), .place = &place, .cache = &cache};
  for (auto& layer : layers_) {
    x = (*layer)(x, context);
    ++context.layer;
  }
  return gathered(norm_(x.slice(1, x.dim(1) - 1, x.dim(1))), split_);
}

void DecoderModel::shard_tensor_parallel(const ActivationSharding& split) {
  split_ = split;
  for (auto& layer : layers_) layer->shard_tensor_parallel(split);
  mark_sharding(embed_tokens_.weight(), split.mesh, {PartitionSpec::Entry(split.axis), PartitionSpec::Entry()});
}

DecoderForCausalLM::DecoderForCausalLM(const DecoderOptions& options)
    : options_(options),
      class_name_(options.family + "ForCausalLM"),
      block_class_(options.family + "DecoderLayer"),
      model_(options),
      lm_head_(model_.embed_tokens(), options.tie_word_embeddings, options.attention.initializer_range) {
  register_module("model", model_);
  register_module("lm_head", lm_head_);
}

CausalShape DecoderForCausalLM::shape() const {
  return {.family = options_.family,
          .layers = options_.layers,
          .width = options_.attention.width,
          .heads = options_.attention.heads,
          .key_heads = options_.attention.groups,
          .head_size = options_.attention.head_size,
          .vocabulary = options_.vocabulary,
          .positions = options_.positions};
}

CausalLM::Output DecoderForCausalLM::compute(const Tensor& tokens, const CausalInputs& inputs) {
  return {lm_head_(model_(tokens, inputs))};
}

Tensor DecoderForCausalLM::step(const Tensor& ids, const StepPlace& place, KeyValueCache& cache) {
  const TraceScope scope(path(), unit());
  return lm_head_(model_.step(ids, place, cache)).select(1, 0);
}

CacheSizes DecoderForCausalLM::cache_sizes() const {
  return {.layers = options_.layers,
          .key_heads = options_.attention.groups,
          .head_size = options_.attention.head_size,
          .most_positions = options_.positions,
          .dtype = options_.attention.dtype};
}

void DecoderForCausalLM::shard_tensor_parallel(const Mesh& mesh, const std::string& axis) {
  model_.shard_tensor_parallel({mesh, axis});
  lm_head_.shard_tensor_parallel({mesh, axis});
}

}  // namespace tessera::nn
