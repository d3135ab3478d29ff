// SPDX-License-Identifier: Apache-2.0
// ResNet (He et al., 2016). The stride of a bottleneck is in its 3x3 convolution unless downsample_in_bottleneck is
// set. Configuration, names and shapes are those of Hugging Face's ResNetForImageClassification.
//
//   nn::ResNetForImageClassification model(nn::ResNetConfig::resnet18(/*num_labels=*/10));
//   Tensor loss = model(images, labels);                          // images [n, 3, h, w]
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/batch_norm.h"
#include "tessera/nn/convolution.h"
#include "tessera/nn/layers.h"
#include "tessera/nn/models/model.h"
#include "tessera/nn/models/module_group.h"
#include "tessera/nn/pools.h"

namespace tessera::nn {

/// Hugging Face's ResNetConfig. Keys that Tessera does not use are kept, and to_json() writes them back.
struct ResNetConfig {
  std::int64_t num_channels = 3;
  std::int64_t embedding_size = 64;
  std::vector<std::int64_t> hidden_sizes{256, 512, 1024, 2048};
  std::vector<std::int64_t> depths{3, 4, 6, 3};
  std::string layer_type = "bottleneck";  // or basic
  std::string hidden_act = "relu";
  bool downsample_in_first_stage = false;
  bool downsample_in_bottleneck = false;
  std::int64_t num_labels = 2;  // the length of id2label
  std::string problem_type;     // the loss of classification_loss(); "": it depends on the labels
  DType dtype = DType::kF32;    // of parameters; not part of the file
  std::string source_json;      // the text of the file, for keys that are not used here

  static ResNetConfig resnet18(std::int64_t num_labels = 1000);
  static ResNetConfig resnet50(std::int64_t num_labels = 1000);
  /// Two stages of 8 and 12 channels, for tests.
  static ResNetConfig tiny(std::int64_t num_labels = 10);

  /// Errors name `origin`: not JSON, a key that Hugging Face does not have (with the nearest one), a value of the wrong
  /// type or out of range, lists of different lengths, an unknown layer_type or activation.
  static ResNetConfig from_json(const std::string& text, const std::string& origin = "ResNet configuration");
  static ResNetConfig from_file(const std::string& path);
  /// Returns all keys that were read, with the values of the fields above.
  [[nodiscard]] std::string to_json() const;
  void check() const;
};

/// A convolution without bias, batch normalization, and an activation unless it is "".
class ResNetConvLayer : public Callable<ResNetConvLayer> {
 public:
  struct Options {
    std::int64_t kernel_size = 3;
    std::int64_t stride = 1;
    std::string activation;
    DType dtype = DType::kF32;
  };
  ResNetConvLayer(std::int64_t in, std::int64_t out, const Options& options);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Conv2d& convolution() { return convolution_; }
  [[nodiscard]] BatchNorm2d& normalization() { return normalization_; }
  [[nodiscard]] std::string_view class_name() const override { return "ResNetConvLayer"; }

 private:
  Conv2d convolution_;
  BatchNorm2d normalization_;
  std::string activation_;
};

/// The basic or the bottleneck layer: convolutions, whose result is added to the input. If the shapes differ, a 1x1
/// convolution is applied to the input first.
class ResNetLayer : public Callable<ResNetLayer> {
 public:
  ResNetLayer(const ResNetConfig& config, std::int64_t in, std::int64_t out, std::int64_t stride);
  Tensor forward(const Tensor& x);
  [[nodiscard]] ModuleList<ResNetConvLayer>& layer() { return layer_; }
  [[nodiscard]] std::string_view class_name() const override { return "ResNetLayer"; }

 private:
  std::unique_ptr<ResNetConvLayer> shortcut_;  // null: the input itself
  ModuleList<ResNetConvLayer> layer_;
  std::string activation_;
};

/// Layers over images of the same size. If `stride` is 2, the first layer halves the image.
class ResNetStage : public Callable<ResNetStage> {
 public:
  ResNetStage(const ResNetConfig& config, std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t depth);
  Tensor forward(const Tensor& x);
  [[nodiscard]] ModuleList<ResNetLayer>& layers() { return layers_; }
  [[nodiscard]] std::string_view class_name() const override { return "ResNetStage"; }

 private:
  ModuleList<ResNetLayer> layers_;
};

/// The network without classifier: `resnet`.
class ResNetModel : public Callable<ResNetModel> {
 public:
  explicit ResNetModel(const ResNetConfig& config);
  Tensor forward(const Tensor& x);  // [n, c, h, w] -> [n, hidden_sizes.back(), h', w']
  [[nodiscard]] ModuleList<ResNetStage>& stages() { return stages_; }
  [[nodiscard]] std::string_view class_name() const override { return "ResNetModel"; }

 private:
  std::int64_t channels_;
  ResNetConvLayer first_;
  MaxPool2d pool_;
  ModuleList<ResNetStage> stages_;
  ModuleGroup embedder_{"ResNetEmbeddings", {{"embedder", &first_}}};
  ModuleGroup encoder_{"ResNetEncoder", {{"stages", &stages_}}};
};

/// ResNet with a linear classifier over the mean of each channel.
class ResNetForImageClassification : public Callable<ResNetForImageClassification, PretrainedModel> {
 public:
  using Config = ResNetConfig;
  explicit ResNetForImageClassification(const ResNetConfig& config);
  /// Images [n, c, h, w] -> [n, num_labels]. The batch or the rows of the images may be sharded.
  Tensor logits(const Tensor& pixel_values);
  /// Returns the loss of the labels, such as the mean cross entropy of integers [n] (classification_loss()).
  Tensor forward(const Tensor& pixel_values, const Tensor& labels);
  [[nodiscard]] ResNetModel& resnet() { return resnet_; }
  [[nodiscard]] Linear& classifier() { return linear_; }
  [[nodiscard]] const ResNetConfig& config() const { return config_; }
  [[nodiscard]] std::string config_json() const override;
  ModelOutput run(const ModelInputs& inputs) override;
  [[nodiscard]] std::string_view block_class() const override { return "ResNetLayer"; }
  void shard_tensor_parallel(const Mesh& mesh, const std::string& axis) override;
  [[nodiscard]] std::string_view class_name() const override { return "ResNetForImageClassification"; }
  [[nodiscard]] FileNames file_names() const override { return {"resnet.", {}}; }

 private:
  ResNetConfig config_;
  ResNetModel resnet_;
  AdaptiveAvgPool2d pooler_;
  Linear linear_;
  ModuleGroup classifier_{"Sequential", {{"1", &linear_}}};  // Hugging Face's classifier.0 flattens
};

/// Shards a model over one axis by channels. The last convolution of a layer is sharded by its input channels, and
/// every other convolution by its output channels.
void shard_tensor_parallel(ResNetForImageClassification& model, const Mesh& mesh, const std::string& axis);

}  // namespace tessera::nn
