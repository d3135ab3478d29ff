// SPDX-License-Identifier: Apache-2.0
// The models of a BERT with a head, and their shardings.
#include "config_form.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"
#include "tessera/nn/models/bert.h"
#include "tessera/nn/models/classification_loss.h"

namespace tessera::nn {
namespace {

BertInputs bert_inputs(const PretrainedModel& model, const ModelInputs& inputs) {
  check_inputs(model.class_name(), inputs, {"input_ids"}, {"attention_mask", "token_type_ids", "labels"});
  return {input_of(inputs, "input_ids"), input_of(inputs, "attention_mask"), input_of(inputs, "token_type_ids")};
}

// What files of every BERT may contain: numbers of positions, the head of next-sentence prediction, old names.
FileNames names_of_bert(std::string prefix) {
  FileNames out{.prefix = std::move(prefix), .ignored_suffixes = {"embeddings.position_ids"}};
  for (const char* name : {"weight", "bias"})
    out.ignored_suffixes.push_back(std::string("cls.seq_relationship.") + name);
  out.renamed_suffixes = {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}};
  return out;
}

}  // namespace

// ---- encoder ------------------------------------------------------------------------------------------------------------

std::string BertModel::config_json() const { return config_.to_json("BertModel"); }

void BertModel::shard_tensor_parallel(const Mesh& mesh, const std::string& axis) {
  nn::shard_tensor_parallel(*this, mesh, axis);
}

ModelOutput BertModel::run(const ModelInputs& inputs) {
  check_inputs(class_name(), inputs, {"input_ids"}, {"attention_mask", "token_type_ids"});
  ModelOutput out{.loss = {}, .logits = (*this)(bert_inputs(*this, inputs))};
  if (pooler_dense_ != nullptr) out.others["pooler_output"] = pooled(out.logits);
  return out;
}

FileNames BertModel::file_names() const {
  FileNames out = names_of_bert("");
  out.outer_prefix = "bert.";
  for (const char* name : {"pooler.dense.weight", "pooler.dense.bias"})
    if (pooler_dense_ == nullptr) out.ignored_suffixes.emplace_back(name);
  return out;
}

// ---- masked language model ----------------------------------------------------------------------------------------------

BertForMaskedLM::Predictions::Decoder::Decoder(const BertConfig& config, const Tensor& word_embeddings,
                                               const Tensor& shared_bias)
    : weight_(word_embeddings), bias_(shared_bias) {
  if (config.tie_word_embeddings) {
    add_shared_parameter("weight", weight_);
    add_shared_parameter("bias", bias_);
    return;
  }
  weight_ = add_parameter("weight", Type::array(config.dtype, {config.vocab_size, config.hidden_size}),
                          normal(0, config.initializer_range));
  bias_ = add_parameter("bias", Type::array(config.dtype, {config.vocab_size}), zeros());
}

BertForMaskedLM::Predictions::Predictions(const BertConfig& config, const Tensor& word_embeddings, Linear& dense,
                                          LayerNorm& norm) {
  const Tensor bias = add_parameter("bias", Type::array(config.dtype, {config.vocab_size}), zeros());
  transform_ = std::make_unique<ModuleGroup>(
      "BertPredictionHeadTransform",
      std::initializer_list<std::pair<const char*, Module*>>{{"dense", &dense}, {"LayerNorm", &norm}});
  decoder_ = std::make_unique<Decoder>(config, word_embeddings, bias);
  add_module("transform", *transform_);
  add_module("decoder", *decoder_);
}

BertForMaskedLM::BertForMaskedLM(const BertConfig& config)
    : config_(config),
      bert_(config, {.pooler = false}),
      transform_dense_(config.hidden_size, config.hidden_size, dense_options(config)),
      transform_norm_(config.hidden_size, config.layer_norm_eps, config.dtype),
      predictions_(config, bert_.embeddings().word_embeddings().weight(), transform_dense_, transform_norm_),
      head_weight_(predictions_.decoder().weight()),
      head_bias_(predictions_.decoder().bias()) {
  add_module("bert", bert_);
  add_module("cls", cls_);
}

Tensor BertForMaskedLM::logits(const BertInputs& inputs) {
  const TraceScope own(path(), unit());
  const Tensor hidden = bert_(inputs);
  const Tensor transformed = transform_norm_(activation(transform_dense_(hidden), config_.hidden_act));
  const TraceScope scope(predictions_.path(), predictions_.unit());
  const Tensor products =
      dot(gathered(transformed, split_), head_weight_, {.lhs_contracting = {2}, .rhs_contracting = {1}});
  return over_dim(products + head_bias_, 2, split_);
}

Tensor BertForMaskedLM::forward(const BertInputs& inputs, const Tensor& labels) {
  return cross_entropy(logits(inputs), labels);
}

CrossEntropyParts BertForMaskedLM::loss_parts(const BertInputs& inputs, const Tensor& labels, double label_smoothing) {
  constexpr std::int64_t kIgnored = -100;
  const TraceScope scope(path(), unit());
  return cross_entropy_parts(logits(inputs), labels, kIgnored, label_smoothing);
}

std::string BertForMaskedLM::config_json() const { return config_.to_json("BertForMaskedLM"); }

void BertForMaskedLM::shard_tensor_parallel(const Mesh& mesh, const std::string& axis) {
  nn::shard_tensor_parallel(*this, mesh, axis);
}

ModelOutput BertForMaskedLM::run(const ModelInputs& inputs) {
  ModelOutput out{.loss = {}, .logits = logits(bert_inputs(*this, inputs))};
  const Tensor labels = input_of(inputs, "labels");
  if (!labels.is_null()) out.loss = cross_entropy(out.logits, labels);
  return out;
}

FileNames BertForMaskedLM::file_names() const {
  FileNames out = names_of_bert("bert.");
  for (const char* name : {"pooler.dense.weight", "pooler.dense.bias"}) out.ignored_suffixes.emplace_back(name);
  if (!config_.tie_word_embeddings)
    out.formerly_tied.emplace_back("cls.predictions.decoder.bias", "cls.predictions.bias");
  return out;
}

// ---- sequence classification --------------------------------------------------------------------------------------------

BertForSequenceClassification::BertForSequenceClassification(const BertConfig& config)
    : config_(config),
      bert_(config),
      dropout_(config.classifier_dropout.value_or(config.hidden_dropout_prob)),
      classifier_(config.hidden_size, config.num_labels, dense_options(config)) {
  add_module("bert", bert_);
  add_module("dropout", dropout_);
  add_module("classifier", classifier_);
}

Tensor BertForSequenceClassification::logits(const BertInputs& inputs) {
  const TraceScope own(path(), unit());
  return classifier_(dropout_(bert_.pooled(bert_(inputs))));
}

Tensor BertForSequenceClassification::forward(const BertInputs& inputs, const Tensor& labels) {
  return classification_loss(logits(inputs), labels, config_.problem_type);
}

FileNames BertForSequenceClassification::file_names() const {
  FileNames out = names_of_bert("bert.");
  for (const char* name : {"bias", "decoder.weight", "decoder.bias", "transform.dense.weight", "transform.dense.bias",
                           "transform.LayerNorm.weight", "transform.LayerNorm.bias"})
    out.ignored_suffixes.push_back(std::string("cls.predictions.") + name);
  return out;
}

std::string BertForSequenceClassification::config_json() const {
  return config_.to_json("BertForSequenceClassification");
}

void BertForSequenceClassification::shard_tensor_parallel(const Mesh& mesh, const std::string& axis) {
  nn::shard_tensor_parallel(*this, mesh, axis);
}

ModelOutput BertForSequenceClassification::run(const ModelInputs& inputs) {
  ModelOutput out{.loss = {}, .logits = logits(bert_inputs(*this, inputs))};
  const Tensor labels = input_of(inputs, "labels");
  if (!labels.is_null()) out.loss = classification_loss(out.logits, labels, config_.problem_type);
  return out;
}

// ---- tensor parallel ----------------------------------------------------------------------------------------------------

void shard_tensor_parallel(BertModel& model, const Mesh& mesh, const std::string& axis) {
  for (auto& layer : model.layers()) layer->shard({mesh, axis});
  const PartitionSpec::Entry rows(axis);
  mark_sharding(model.embeddings().word_embeddings().weight(), mesh, PartitionSpec({rows, {}}));
}

void shard_tensor_parallel(BertForMaskedLM& model, const Mesh& mesh, const std::string& axis) {
  shard_tensor_parallel(model.bert(), mesh, axis);
  model.shard_activations({mesh, axis});
  const PartitionSpec::Entry rows(axis);
  if (!same_variable(model.head_weight(), model.bert().embeddings().word_embeddings().weight()))
    mark_sharding(model.head_weight(), mesh, PartitionSpec({rows, {}}));
  mark_sharding(model.head_bias(), mesh, PartitionSpec({rows}));
}

void shard_tensor_parallel(BertForSequenceClassification& model, const Mesh& mesh, const std::string& axis) {
  shard_tensor_parallel(model.bert(), mesh, axis);
}

}  // namespace tessera::nn
