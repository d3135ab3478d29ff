// SPDX-License-Identifier: Apache-2.0
// BERT (Devlin et al., 2019): an encoder of token sequences. Configuration, names and shapes are those of Hugging
// Face's BertModel, BertForMaskedLM and BertForSequenceClassification.
//
//   auto model = from_pretrained<nn::BertModel>("all-MiniLM-L6-v2");
//   // [b, hidden]
//   Tensor sentences = model->embed({ids, mask}, {.pooling = nn::BertPooling::kMean, .normalize = true});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/nn/models/encoder.h"
#include "tessera/nn/models/model.h"
#include "tessera/nn/models/module_group.h"

namespace tessera::nn {

/// Hugging Face's BertConfig. Keys that Tessera does not use are kept, and to_json() writes them back.
struct BertConfig {
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  std::optional<std::int64_t> pad_token_id = 0;  // the row of the word embeddings without gradient
  bool tie_word_embeddings = true;
  std::optional<double> classifier_dropout;  // nullopt: hidden_dropout_prob
  std::int64_t num_labels = 2;               // the length of id2label; 1: predicts a number
  std::string problem_type;                  // the loss of classification_loss(); "": it depends on the labels
  DType dtype = DType::kF32;                 // of parameters; not part of the file
  std::string source_json;                   // the text of the file, for keys that are not used here

  /// Two layers of 32 channels and 4 heads, for tests.
  static BertConfig tiny(std::int64_t vocab_size = 256);
  /// bert-base-uncased.
  static BertConfig base();
  /// bert-large-uncased.
  static BertConfig large();

  /// Errors name `origin`: not JSON, a key that Hugging Face does not have (with the nearest one), a value of the wrong
  /// type or out of range, heads that do not divide hidden_size, an unknown activation, a decoder, positions other than
  /// absolute ones.
  static BertConfig from_json(const std::string& text, const std::string& origin = "BERT configuration");
  static BertConfig from_file(const std::string& path);
  /// Returns all keys that were read, with the values of the fields above. `architecture` is the value of
  /// "architectures".
  [[nodiscard]] std::string to_json(const std::string& architecture = "BertForMaskedLM") const;
  void check() const;
};

/// The inputs of BERT. All are [b, t].
struct BertInputs {
  Tensor input_ids;
  Tensor attention_mask{};  // 0 for positions to which no position attends, else 1; null: all 1
  Tensor token_type_ids{};  // 1 in the second text of a pair; null: all 0
};

/// The normalized sum of the embeddings of words, positions and token types: `bert.embeddings`.
class BertEmbeddings : public Callable<BertEmbeddings> {
 public:
  explicit BertEmbeddings(const BertConfig& config);
  Tensor forward(const BertInputs& inputs);  // -> [b, t, hidden]
  [[nodiscard]] Embedding& word_embeddings() { return word_; }
  [[nodiscard]] std::string_view class_name() const override { return "BertEmbeddings"; }

 private:
  std::int64_t positions_;
  Embedding word_, position_, token_type_;
  LayerNorm norm_;
  Dropout dropout_;
};

/// Attention and MLP, with a norm after each.
class BertLayer : public Callable<BertLayer> {
 public:
  explicit BertLayer(const BertConfig& config);
  /// x [b, t, hidden]; `mask` [b, t] as for EncoderSelfAttention.
  Tensor forward(const Tensor& x, const Tensor& mask);
  /// Shards the weights and the activations between them over the axis of the split.
  void shard(const ActivationSharding& split);
  [[nodiscard]] std::string_view class_name() const override { return "BertLayer"; }

 private:
  std::string activation_;
  EncoderSelfAttention self_;
  Linear attention_dense_, intermediate_dense_, output_dense_;
  LayerNorm attention_norm_, output_norm_;
  Dropout dropout_;
  ModuleGroup attention_output_{"BertSelfOutput", {{"dense", &attention_dense_}, {"LayerNorm", &attention_norm_}}};
  ModuleGroup attention_{"BertAttention", {{"self", &self_}, {"output", &attention_output_}}};
  ModuleGroup intermediate_{"BertIntermediate", {{"dense", &intermediate_dense_}}};
  ModuleGroup output_{"BertOutput", {{"dense", &output_dense_}, {"LayerNorm", &output_norm_}}};
  std::optional<ActivationSharding> split_;
};

/// How the vector of a text is computed from the vectors of its tokens.
enum class BertPooling {
  kMean,  // the mean over the positions of the mask
  kCls,   // the vector of the first token
};
struct BertEmbedOptions {
  BertPooling pooling = BertPooling::kMean;
  bool normalize = false;  // to length 1
};

/// The encoder: `bert`. The pooler is a dense layer with tanh over the first token.
class BertModel : public Callable<BertModel, PretrainedModel> {
 public:
  using Config = BertConfig;
  struct Options {
    bool pooler = true;
  };
  explicit BertModel(const BertConfig& config) : BertModel(config, Options()) {}
  BertModel(const BertConfig& config, const Options& options);
  Tensor forward(const BertInputs& inputs);  // -> [b, t, hidden]
  /// [b, t, hidden] -> [b, hidden]. Error without a pooler.
  Tensor pooled(const Tensor& hidden);
  /// A vector for each text: [b, hidden].
  Tensor embed(const BertInputs& inputs, const BertEmbedOptions& options = {});
  [[nodiscard]] BertEmbeddings& embeddings() { return embeddings_; }
  [[nodiscard]] ModuleList<BertLayer>& layers() { return layer_; }
  [[nodiscard]] const BertConfig& config() const { return config_; }
  [[nodiscard]] std::string config_json() const override;
  ModelOutput run(const ModelInputs& inputs) override;
  [[nodiscard]] std::string_view block_class() const override { return "BertLayer"; }
  void shard_tensor_parallel(const Mesh& mesh, const std::string& axis) override;
  [[nodiscard]] std::string_view class_name() const override { return "BertModel"; }
  /// Accepts older files, which also contain position ids and have other names for norms.
  [[nodiscard]] FileNames file_names() const override;

 private:
  BertConfig config_;
  BertEmbeddings embeddings_;
  ModuleList<BertLayer> layer_;
  ModuleGroup encoder_{"BertEncoder", {{"layer", &layer_}}};
  std::unique_ptr<Linear> pooler_dense_;
  std::unique_ptr<ModuleGroup> pooler_;
};

/// BERT with a head that predicts masked tokens. The head's matrix is tied to the word embeddings, and its bias is
/// `cls.predictions.bias`, unless tie_word_embeddings is false.
class BertForMaskedLM : public Callable<BertForMaskedLM, PretrainedModel> {
 public:
  using Config = BertConfig;
  explicit BertForMaskedLM(const BertConfig& config);
  /// -> [b, t, vocabulary].
  Tensor logits(const BertInputs& inputs);
  /// Returns the mean cross entropy over labels [b, t] other than -100.
  Tensor forward(const BertInputs& inputs, const Tensor& labels);
  /// Returns the sum and the number of labels that are not ignored. Smooths labels as cross_entropy_parts() does.
  CrossEntropyParts loss_parts(const BertInputs& inputs, const Tensor& labels, double label_smoothing = 0);
  [[nodiscard]] BertModel& bert() { return bert_; }
  [[nodiscard]] const BertConfig& config() const { return config_; }
  /// The matrix and the bias over the vocabulary.
  [[nodiscard]] Tensor head_weight() const { return head_weight_; }
  [[nodiscard]] Tensor head_bias() const { return head_bias_; }
  void shard_activations(const ActivationSharding& split) { split_ = split; }
  [[nodiscard]] std::string config_json() const override;
  ModelOutput run(const ModelInputs& inputs) override;
  [[nodiscard]] std::string_view block_class() const override { return "BertLayer"; }
  void shard_tensor_parallel(const Mesh& mesh, const std::string& axis) override;
  [[nodiscard]] std::string_view class_name() const override { return "BertForMaskedLM"; }
  /// Accepts files that also have a pooler and the head of next-sentence prediction.
  [[nodiscard]] FileNames file_names() const override;

 private:
  /// cls.predictions: holds `bias`, and the decoder. Without tying, the decoder has a matrix and a bias of its own, and
  /// `bias` is only in files, as in Hugging Face.
  class Predictions : public Module {
   public:
    class Decoder : public Module {
     public:
      Decoder(const BertConfig& config, const Tensor& word_embeddings, const Tensor& shared_bias);
      [[nodiscard]] const Tensor& weight() const { return weight_; }
      [[nodiscard]] const Tensor& bias() const { return bias_; }
      [[nodiscard]] std::string_view class_name() const override { return "Linear"; }

     private:
      Tensor weight_, bias_;
    };
    Predictions(const BertConfig& config, const Tensor& word_embeddings, Linear& dense, LayerNorm& norm);
    [[nodiscard]] const Decoder& decoder() const { return *decoder_; }
    [[nodiscard]] std::string_view class_name() const override { return "BertLMPredictionHead"; }

   private:
    std::unique_ptr<ModuleGroup> transform_;
    std::unique_ptr<Decoder> decoder_;
  };
  BertConfig config_;
  BertModel bert_;
  Linear transform_dense_;
  LayerNorm transform_norm_;
  Predictions predictions_;
  ModuleGroup cls_{"BertOnlyMLMHead", {{"predictions", &predictions_}}};
  Tensor head_weight_, head_bias_;
  std::optional<ActivationSharding> split_;
};

/// BERT with a linear classifier over the pooled first token.
class BertForSequenceClassification : public Callable<BertForSequenceClassification, PretrainedModel> {
 public:
  using Config = BertConfig;
  explicit BertForSequenceClassification(const BertConfig& config);
  /// -> [b, num_labels].
  Tensor logits(const BertInputs& inputs);
  /// Returns the loss of the labels (classification_loss()): by default the mean cross entropy of integers [b], or with
  /// one label the mean squared error of floats [b].
  Tensor forward(const BertInputs& inputs, const Tensor& labels);
  [[nodiscard]] BertModel& bert() { return bert_; }
  [[nodiscard]] const BertConfig& config() const { return config_; }
  [[nodiscard]] std::string config_json() const override;
  ModelOutput run(const ModelInputs& inputs) override;
  [[nodiscard]] std::string_view block_class() const override { return "BertLayer"; }
  void shard_tensor_parallel(const Mesh& mesh, const std::string& axis) override;
  [[nodiscard]] std::string_view class_name() const override { return "BertForSequenceClassification"; }
  /// Accepts files that also have the heads of pre-training.
  [[nodiscard]] FileNames file_names() const override;

 private:
  BertConfig config_;
  BertModel bert_;
  Dropout dropout_;
  Linear classifier_;
};

/// Shards a model over one axis. Attention is sharded by heads. The first matrix of an MLP is sharded by columns, and
/// the second by rows. Word embeddings and the head of BertForMaskedLM are sharded by vocabulary.
void shard_tensor_parallel(BertModel& model, const Mesh& mesh, const std::string& axis);
void shard_tensor_parallel(BertForMaskedLM& model, const Mesh& mesh, const std::string& axis);
void shard_tensor_parallel(BertForSequenceClassification& model, const Mesh& mesh, const std::string& axis);

}  // namespace tessera::nn
