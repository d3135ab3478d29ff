// SPDX-License-Identifier: Apache-2.0
// ViT (Dosovitskiy et al., 2021): an encoder over patches of an image. Configuration, names and shapes are those of
// Hugging Face's ViTForImageClassification.
//
//   nn::ViTForImageClassification model(nn::ViTConfig::base(/*num_labels=*/1000));
//   Tensor loss = model(images, labels);                          // images [n, 3, 224, 224]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/nn/convolution.h"
#include "tessera/nn/models/encoder.h"
#include "tessera/nn/models/model.h"
#include "tessera/nn/models/module_group.h"

namespace tessera::nn {

/// Hugging Face's ViTConfig. Keys that Tessera does not use are kept, and to_json() writes them back.
struct ViTConfig {
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0;
  double attention_probs_dropout_prob = 0;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  std::vector<std::int64_t> image_size{224};  // one number for both dims, or {h, w}
  std::vector<std::int64_t> patch_size{16};   // likewise
  std::int64_t num_channels = 3;
  bool qkv_bias = true;
  std::int64_t num_labels = 2;  // the length of id2label
  std::string problem_type;     // the loss of classification_loss(); "": it depends on the labels
  DType dtype = DType::kF32;    // of parameters; not part of the file
  std::string source_json;      // the text of the file, for keys that are not used here

  /// Two layers of 16 channels over 4x4 patches of 12x12 images, for tests.
  static ViTConfig tiny(std::int64_t num_labels = 10);
  /// ViT-B/16.
  static ViTConfig base(std::int64_t num_labels = 1000);
  /// ViT-L/16.
  static ViTConfig large(std::int64_t num_labels = 1000);

  /// Errors name `origin`: not JSON, a key that Hugging Face does not have (with the nearest one), a value of the wrong
  /// type or out of range, heads that do not divide hidden_size, an unknown activation.
  static ViTConfig from_json(const std::string& text, const std::string& origin = "ViT configuration");
  static ViTConfig from_file(const std::string& path);
  /// Returns all keys that were read, with the values of the fields above.
  [[nodiscard]] std::string to_json() const;
  /// Rows and columns of patches.
  [[nodiscard]] std::int64_t patch_rows() const { return image_size.front() / patch_size.front(); }
  [[nodiscard]] std::int64_t patch_columns() const { return image_size.back() / patch_size.back(); }
  void check() const;
};

/// The embeddings of patches, the class token and positions: `vit.embeddings`.
class ViTEmbeddings : public Callable<ViTEmbeddings> {
 public:
  explicit ViTEmbeddings(const ViTConfig& config);
  Tensor forward(const Tensor& pixel_values);  // [n, c, h, w] -> [n, 1 + patches, hidden]
  [[nodiscard]] std::string_view class_name() const override { return "ViTEmbeddings"; }

 private:
  Dims image_;  // [c, h, w]
  Tensor cls_token_, position_embeddings_;
  Conv2d projection_;
  ModuleGroup patch_embeddings_{"ViTPatchEmbeddings", {{"projection", &projection_}}};
  Dropout dropout_;
};

/// Attention and MLP, with a norm before each.
class ViTLayer : public Callable<ViTLayer> {
 public:
  explicit ViTLayer(const ViTConfig& config);
  Tensor forward(const Tensor& x);
  /// Shards the weights and the activations between them over the axis of the split.
  void shard(const ActivationSharding& split);
  [[nodiscard]] std::string_view class_name() const override { return "ViTLayer"; }

 private:
  std::string activation_;
  EncoderSelfAttention self_;
  Linear attention_dense_, intermediate_dense_, output_dense_;
  ModuleGroup attention_output_{"ViTSelfOutput", {{"dense", &attention_dense_}}};
  ModuleGroup attention_{"ViTAttention", {{"attention", &self_}, {"output", &attention_output_}}};
  ModuleGroup intermediate_{"ViTIntermediate", {{"dense", &intermediate_dense_}}};
  ModuleGroup output_{"ViTOutput", {{"dense", &output_dense_}}};
  LayerNorm layernorm_before_, layernorm_after_;
  Dropout dropout_;
  std::optional<ActivationSharding> split_;
};

/// The encoder with its embeddings and last norm: `vit`.
class ViTModel : public Callable<ViTModel> {
 public:
  explicit ViTModel(const ViTConfig& config);
  Tensor forward(const Tensor& pixel_values);  // [n, c, h, w] -> [n, 1 + patches, hidden]
  [[nodiscard]] ModuleList<ViTLayer>& layers() { return layer_; }
  [[nodiscard]] std::string_view class_name() const override { return "ViTModel"; }

 private:
  ViTEmbeddings embeddings_;
  ModuleList<ViTLayer> layer_;
  ModuleGroup encoder_{"ViTEncoder", {{"layer", &layer_}}};
  LayerNorm layernorm_;
};

/// ViT with a linear classifier over the class token.
class ViTForImageClassification : public Callable<ViTForImageClassification, PretrainedModel> {
 public:
  using Config = ViTConfig;
  explicit ViTForImageClassification(const ViTConfig& config);
  /// Images [n, c, h, w] of the configured size -> [n, num_labels].
  Tensor logits(const Tensor& pixel_values);
  /// Returns the loss of the labels, such as the mean cross entropy of integers [n] (classification_loss()).
  Tensor forward(const Tensor& pixel_values, const Tensor& labels);
  [[nodiscard]] ViTModel& vit() { return vit_; }
  [[nodiscard]] const ViTConfig& config() const { return config_; }
  [[nodiscard]] std::string config_json() const override;
  ModelOutput run(const ModelInputs& inputs) override;
  [[nodiscard]] std::string_view block_class() const override { return "ViTLayer"; }
  void shard_tensor_parallel(const Mesh& mesh, const std::string& axis) override;
  [[nodiscard]] std::string_view class_name() const override { return "ViTForImageClassification"; }
  /// Ignores the pooler in files of ViTModel, because this model has none.
  [[nodiscard]] FileNames file_names() const override { return {"vit.", {"pooler.dense.weight", "pooler.dense.bias"}}; }

 private:
  ViTConfig config_;
  ViTModel vit_;
  Linear classifier_;
};

/// Shards a model over one axis. Attention is sharded by heads. The first matrix of an MLP is sharded by columns, and
/// the second by rows.
void shard_tensor_parallel(ViTForImageClassification& model, const Mesh& mesh, const std::string& axis);

}  // namespace tessera::nn
