// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/bert.h"

#include "config_form.h"
#include "tessera/base/text.h"

namespace tessera::nn {
namespace {

const BertConfig& checked_bert(const BertConfig& config) {
  config.check();
  return config;
}

// Returns the mask as truth values; null if there is none.
Tensor as_truth(const Tensor& mask) { return mask.is_null() || mask.dtype() == DType::kPred ? mask : mask != 0.0; }

// Error unless `given` is null or has the dims of the tokens.
void check_same_dims(const char* name, const Tensor& given, const Tensor& tokens) {
  require(given.is_null() || given.dims() == tokens.dims(), "BERT's {} must have the dims of input_ids {}, got {}",
          name, tokens.type(), [&] { return given.type().str(); });
}

}  // namespace

// ---- embeddings ---------------------------------------------------------------------------------------------------------

BertEmbeddings::BertEmbeddings(const BertConfig& config)
    : positions_(config.max_position_embeddings),
      word_(
          config.vocab_size, config.hidden_size,
          {.padding_idx = config.pad_token_id, .standard_deviation = config.initializer_range, .dtype = config.dtype}),
      position_(config.max_position_embeddings, config.hidden_size, config.initializer_range, config.dtype),
      token_type_(config.type_vocab_size, config.hidden_size, config.initializer_range, config.dtype),
      norm_(config.hidden_size, config.layer_norm_eps, config.dtype),
      dropout_(config.hidden_dropout_prob) {
  add_module("word_embeddings", word_);
  add_module("position_embeddings", position_);
  add_module("token_type_embeddings", token_type_);
  add_module("LayerNorm", norm_);
  add_module("dropout", dropout_);
}

Tensor BertEmbeddings::forward(const BertInputs& inputs) {
  const Tensor& tokens = inputs.input_ids;
  require(tokens.ndim() == 2, "BERT takes tokens [batch, time], got {}", tokens.type());
  check_same_dims("attention_mask", inputs.attention_mask, tokens);
  check_same_dims("token_type_ids", inputs.token_type_ids, tokens);
  const std::int64_t t = tokens.dim(1);
  require(t <= positions_, "{} tokens, but max_position_embeddings is {}", t, positions_);
  const Tensor types =
      inputs.token_type_ids.is_null() ? token_type_.weight().select(0, 0) : token_type_(inputs.token_type_ids);
  const Tensor positions = t == positions_ ? position_.weight() : position_.weight().slice(0, 0, t);
  return dropout_(norm_(word_(tokens) + types + positions));
}

// ---- layer --------------------------------------------------------------------------------------------------------------

BertLayer::BertLayer(const BertConfig& config)
    : activation_(config.hidden_act),
      self_({.hidden_size = config.hidden_size,
             .heads = config.num_attention_heads,
             .dropout = config.attention_probs_dropout_prob,
             .standard_deviation = config.initializer_range,
             .dtype = config.dtype}),
      attention_dense_(config.hidden_size, config.hidden_size, dense_options(config)),
      intermediate_dense_(config.hidden_size, config.intermediate_size, dense_options(config)),
      output_dense_(config.intermediate_size, config.hidden_size, dense_options(config)),
      attention_norm_(config.hidden_size, config.layer_norm_eps, config.dtype),
      output_norm_(config.hidden_size, config.layer_norm_eps, config.dtype),
      dropout_(config.hidden_dropout_prob) {
  add_module("attention", attention_);
  add_module("intermediate", intermediate_);
  add_module("output", output_);
  add_module("dropout", dropout_);
}

Tensor BertLayer::forward(const Tensor& x, const Tensor& mask) {
  const Tensor attended = attention_norm_(dropout_(gathered(attention_dense_(self_(x, mask)), split_)) + x);
  const Tensor inner = over_dim(intermediate_dense_(gathered(attended, split_)), 2, split_);
  return output_norm_(dropout_(gathered(output_dense_(activation(inner, activation_)), split_)) + attended);
}

void BertLayer::shard(const ActivationSharding& split) {
  split_ = split;
  self_.shard(split);
  shard_inputs(attention_dense_, split);
  shard_outputs(intermediate_dense_, split);
  shard_inputs(output_dense_, split);
}

// ---- model --------------------------------------------------------------------------------------------------------------

BertModel::BertModel(const BertConfig& config, const Options& options)
    : config_(checked_bert(config)), embeddings_(config) {
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) layer_.emplace(config);
  add_module("embeddings", embeddings_);
  add_module("encoder", encoder_);
  if (!options.pooler) return;
  pooler_dense_ = std::make_unique<Linear>(config.hidden_size, config.hidden_size, dense_options(config));
  pooler_ = std::make_unique<ModuleGroup>(
      "BertPooler", std::initializer_list<std::pair<const char*, Module*>>{{"dense", pooler_dense_.get()}});
  add_module("pooler", *pooler_);
}

Tensor BertModel::forward(const BertInputs& inputs) {
  Tensor x = embeddings_(inputs);
  const Tensor mask = as_truth(inputs.attention_mask);
  for (auto& layer : layer_) x = (*layer)(x, mask);
  return x;
}

Tensor BertModel::pooled(const Tensor& hidden) {
  require(pooler_dense_ != nullptr, "this BertModel has no pooler");
  return tanh((*pooler_dense_)(hidden.select(1, 0)));
}

Tensor BertModel::embed(const BertInputs& inputs, const BertEmbedOptions& options) {
  const Tensor hidden = (*this)(inputs);
  Tensor out;
  if (options.pooling == BertPooling::kCls) {
    out = hidden.select(1, 0);
  } else if (inputs.attention_mask.is_null()) {
    out = mean(hidden, {.dims = {1}});
  } else {
    const Tensor weights = as_truth(inputs.attention_mask).to(hidden.dtype()).unsqueeze(-1);  // [b, t, 1]
    constexpr double kLeast = 1e-9;  // of a row without any position
    out = sum(hidden * weights, {.dims = {1}}) / maximum(sum(weights, {.dims = {1}}), kLeast);
  }
  if (!options.normalize) return out;
  constexpr double kShortest = 1e-12;
  return out / maximum(sqrt(sum(square(out), {.dims = {1}, .keep_dims = true})), kShortest);
}

}  // namespace tessera::nn
