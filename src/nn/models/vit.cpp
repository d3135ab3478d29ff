// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/vit.h"

#include "config_form.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"
#include "tessera/nn/models/classification_loss.h"

namespace tessera::nn {
namespace {

const ViTConfig& checked_vit(const ViTConfig& config) {
  config.check();
  return config;
}

// Returns height and width of one number or two.
Dims both(const std::vector<std::int64_t>& sizes) { return {sizes.front(), sizes.back()}; }

}  // namespace

ViTEmbeddings::ViTEmbeddings(const ViTConfig& config)
    : image_({config.num_channels, config.image_size.front(), config.image_size.back()}),
      projection_(config.num_channels, config.hidden_size, both(config.patch_size),
                  {.stride = both(config.patch_size),
                   .dtype = config.dtype,
                   .weight_initializer = normal(0, config.initializer_range)}),
      dropout_(config.hidden_dropout_prob) {
  const std::int64_t patches = config.patch_rows() * config.patch_columns();
  cls_token_ = add_parameter("cls_token", Type::array(config.dtype, {1, 1, config.hidden_size}),
                             normal(0, config.initializer_range));
  position_embeddings_ =
      add_parameter("position_embeddings", Type::array(config.dtype, {1, 1 + patches, config.hidden_size}),
                    normal(0, config.initializer_range));
  add_module("patch_embeddings", patch_embeddings_);
  add_module("dropout", dropout_);
}

Tensor ViTEmbeddings::forward(const Tensor& pixel_values) {
  const Tensor& x = pixel_values;
  require(x.ndim() == 4 && x.dim(1) == image_[0] && x.dim(2) == image_[1] && x.dim(3) == image_[2],
          "ViT takes images [n, {}, {}, {}], got {}", image_[0], image_[1], image_[2], x.type());
  const Tensor patches = projection_(as_operand_of(projection_.weight(), x));  // [n, hidden, rows, columns]
  const std::int64_t n = x.dim(0);
  const std::int64_t hidden = patches.dim(1);
  const Tensor sequence = patches.reshape({n, hidden, -1}).transpose({0, 2, 1});
  return dropout_(concat({cls_token_.broadcast_to({n, 1, hidden}), sequence}, 1) + position_embeddings_);
}

ViTLayer::ViTLayer(const ViTConfig& config)
    : activation_(config.hidden_act),
      self_({.hidden_size = config.hidden_size,
             .heads = config.num_attention_heads,
             .bias = config.qkv_bias,
             .dropout = config.attention_probs_dropout_prob,
             .standard_deviation = config.initializer_range,
             .dtype = config.dtype}),
      attention_dense_(config.hidden_size, config.hidden_size, dense_options(config)),
      intermediate_dense_(config.hidden_size, config.intermediate_size, dense_options(config)),
      output_dense_(config.intermediate_size, config.hidden_size, dense_options(config)),
      layernorm_before_(config.hidden_size, config.layer_norm_eps, config.dtype),
      layernorm_after_(config.hidden_size, config.layer_norm_eps, config.dtype),
      dropout_(config.hidden_dropout_prob) {
  add_module("attention", attention_);
  add_module("intermediate", intermediate_);
  add_module("output", output_);
  add_module("layernorm_before", layernorm_before_);
  add_module("layernorm_after", layernorm_after_);
  add_module("dropout", dropout_);
}

Tensor ViTLayer::forward(const Tensor& x) {
  const Tensor attended = dropout_(gathered(attention_dense_(self_(layernorm_before_(x), Tensor())), split_)) + x;
  const Tensor inner = over_dim(intermediate_dense_(gathered(layernorm_after_(attended), split_)), 2, split_);
  return dropout_(gathered(output_dense_(activation(inner, activation_)), split_)) + attended;
}

void ViTLayer::shard(const ActivationSharding& split) {
  split_ = split;
  self_.shard(split);
  shard_inputs(attention_dense_, split);
  shard_outputs(intermediate_dense_, split);
  shard_inputs(output_dense_, split);
}

ViTModel::ViTModel(const ViTConfig& config)
    : embeddings_(config), layernorm_(config.hidden_size, config.layer_norm_eps, config.dtype) {
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) layer_.emplace(config);
  add_module("embeddings", embeddings_);
  add_module("encoder", encoder_);
  add_module("layernorm", layernorm_);
}

Tensor ViTModel::forward(const Tensor& pixel_values) {
  Tensor x = embeddings_(pixel_values);
  for (auto& layer : layer_) x = (*layer)(x);
  return layernorm_(x);
}

ViTForImageClassification::ViTForImageClassification(const ViTConfig& config)
    : config_(checked_vit(config)),
      vit_(config),
      classifier_(config.hidden_size, config.num_labels, dense_options(config)) {
  add_module("vit", vit_);
  add_module("classifier", classifier_);
}

Tensor ViTForImageClassification::logits(const Tensor& pixel_values) {
  const TraceScope own(path(), unit());
  return classifier_(vit_(pixel_values).select(1, 0));
}

Tensor ViTForImageClassification::forward(const Tensor& pixel_values, const Tensor& labels) {
  return classification_loss(logits(pixel_values), labels, config_.problem_type);
}

std::string ViTForImageClassification::config_json() const { return config_.to_json(); }

void ViTForImageClassification::shard_tensor_parallel(const Mesh& mesh, const std::string& axis) {
  nn::shard_tensor_parallel(*this, mesh, axis);
}

ModelOutput ViTForImageClassification::run(const ModelInputs& inputs) {
  check_inputs(class_name(), inputs, {"pixel_values"}, {"labels"});
  ModelOutput out{.loss = {}, .logits = logits(input_of(inputs, "pixel_values"))};
  const Tensor labels = input_of(inputs, "labels");
  if (!labels.is_null()) out.loss = classification_loss(out.logits, labels, config_.problem_type);
  return out;
}

void shard_tensor_parallel(ViTForImageClassification& model, const Mesh& mesh, const std::string& axis) {
  for (auto& layer : model.vit().layers()) layer->shard({mesh, axis});
}

}  // namespace tessera::nn
