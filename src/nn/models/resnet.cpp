// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/resnet.h"

#include <cmath>

#include "config_form.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"
#include "tessera/nn/models/classification_loss.h"

namespace tessera::nn {
namespace {

const ResNetConfig& checked_resnet(const ResNetConfig& config) {
  config.check();
  return config;
}

// Kaiming's initial values for a ReLU, by the outputs of a kernel (He et al., 2015).
Initializer kaiming(std::int64_t out, std::int64_t kernel_size) {
  return normal(0, std::sqrt(2 / static_cast<double>(out * kernel_size * kernel_size)));
}

}  // namespace

ResNetConvLayer::ResNetConvLayer(std::int64_t in, std::int64_t out, const Options& options)
    : convolution_(in, out, {options.kernel_size},
                   {.stride = {options.stride},
                    .padding = {options.kernel_size / 2},
                    .bias = false,
                    .dtype = options.dtype,
                    .weight_initializer = kaiming(out, options.kernel_size)}),
      normalization_(out, {.dtype = options.dtype}),
      activation_(options.activation) {
  add_module("convolution", convolution_);
  add_module("normalization", normalization_);
}

Tensor ResNetConvLayer::forward(const Tensor& x) {
  const Tensor y = normalization_(convolution_(x));
  return activation_.empty() ? y : activation(y, activation_);
}

ResNetLayer::ResNetLayer(const ResNetConfig& config, std::int64_t in, std::int64_t out, std::int64_t stride)
    : activation_(config.hidden_act) {
  const auto options = [&](std::int64_t kernel_size, std::int64_t by, const char* activation) {
    return ResNetConvLayer::Options{kernel_size, by, activation, config.dtype};
  };
  if (in != out || stride != 1) {
    shortcut_ = std::make_unique<ResNetConvLayer>(in, out, options(1, stride, ""));
    add_module("shortcut", *shortcut_);
  }
  if (config.layer_type == "basic") {
    layer_.emplace(in, out, options(3, stride, "relu"));
    layer_.emplace(out, out, options(3, 1, ""));
  } else {
    const std::int64_t within = out / 4;
    layer_.emplace(in, within, options(1, config.downsample_in_bottleneck ? stride : 1, "relu"));
    layer_.emplace(within, within, options(3, config.downsample_in_bottleneck ? 1 : stride, "relu"));
    layer_.emplace(within, out, options(1, 1, ""));
  }
  add_module("layer", layer_);
}

Tensor ResNetLayer::forward(const Tensor& x) {
  Tensor y = x;
  for (auto& layer : layer_) y = (*layer)(y);
  return activation(y + (shortcut_ ? (*shortcut_)(x) : x), activation_);
}

ResNetStage::ResNetStage(const ResNetConfig& config, std::int64_t in, std::int64_t out, std::int64_t stride,
                         std::int64_t depth) {
  for (std::int64_t i = 0; i < depth; ++i) layers_.emplace(config, i == 0 ? in : out, out, i == 0 ? stride : 1);
  add_module("layers", layers_);
}

Tensor ResNetStage::forward(const Tensor& x) {
  Tensor y = x;
  for (auto& layer : layers_) y = (*layer)(y);
  return y;
}

ResNetModel::ResNetModel(const ResNetConfig& config)
    : channels_(config.num_channels),
      first_(config.num_channels, config.embedding_size,
             {.kernel_size = 7, .stride = 2, .activation = config.hidden_act, .dtype = config.dtype}),
      pool_({.kernel_size = {3}, .stride = {2}, .padding = {1}}) {
  std::int64_t in = config.embedding_size;
  for (std::size_t i = 0; i < config.depths.size(); ++i) {
    const std::int64_t stride = i > 0 || config.downsample_in_first_stage ? 2 : 1;
    stages_.emplace(config, in, config.hidden_sizes[i], stride, config.depths[i]);
    in = config.hidden_sizes[i];
  }
  add_module("embedder", embedder_);
  add_module("encoder", encoder_);
}

Tensor ResNetModel::forward(const Tensor& x) {
  require(x.ndim() == 4 && x.dim(1) == channels_, "ResNet takes images [n, {}, h, w], got {}", channels_, x.type());
  Tensor y = pool_(first_(as_operand_of(first_.convolution().weight(), x)));
  for (auto& stage : stages_) y = (*stage)(y);
  return y;
}

ResNetForImageClassification::ResNetForImageClassification(const ResNetConfig& config)
    : config_(checked_resnet(config)),
      resnet_(config),
      linear_(config.hidden_sizes.back(), config.num_labels, {.dtype = config.dtype}) {
  add_module("resnet", resnet_);
  add_module("classifier", classifier_);
}

Tensor ResNetForImageClassification::logits(const Tensor& pixel_values) {
  const TraceScope own(path(), unit());
  const Tensor pooled = pooler_(resnet_(pixel_values));
  return linear_(pooled.reshape({pooled.dim(0), pooled.dim(1)}));
}

Tensor ResNetForImageClassification::forward(const Tensor& pixel_values, const Tensor& labels) {
  return classification_loss(logits(pixel_values), labels, config_.problem_type);
}

std::string ResNetForImageClassification::config_json() const { return config_.to_json(); }

void ResNetForImageClassification::shard_tensor_parallel(const Mesh& mesh, const std::string& axis) {
  nn::shard_tensor_parallel(*this, mesh, axis);
}

ModelOutput ResNetForImageClassification::run(const ModelInputs& inputs) {
  check_inputs(class_name(), inputs, {"pixel_values"}, {"labels"});
  ModelOutput out{.loss = {}, .logits = logits(input_of(inputs, "pixel_values"))};
  const Tensor labels = input_of(inputs, "labels");
  if (!labels.is_null()) out.loss = classification_loss(out.logits, labels, config_.problem_type);
  return out;
}

void shard_tensor_parallel(ResNetForImageClassification& model, const Mesh& mesh, const std::string& axis) {
  using Entry = PartitionSpec::Entry;
  const auto mark = [&](const Tensor& weight, int dim) {
    std::vector<Entry> entries(static_cast<std::size_t>(weight.ndim()));
    at(entries, dim) = Entry(axis);
    mark_sharding(weight, mesh, PartitionSpec(std::move(entries)));
  };
  for (auto& stage : model.resnet().stages())
    for (auto& block : stage->layers()) {
      ModuleList<ResNetConvLayer>& layer = block->layer();
      for (int i = 0; i + 1 < layer.size(); ++i) mark(layer[i].convolution().weight(), 0);
      mark(layer[layer.size() - 1].convolution().weight(), 1);
    }
}

}  // namespace tessera::nn
