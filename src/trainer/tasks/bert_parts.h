// SPDX-License-Identifier: Apache-2.0
// What the tasks of BERT have in common: finding the model, its tokenizer, and rows of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/data/source.h"
#include "tessera/data/wordpiece_tokenizer.h"
#include "tessera/nn/models/bert.h"
#include "tessera/trainer/task.h"

namespace tessera::trainer {

/// The folder of --model_name_or_path: the path, or the folder of this name in --cache_dir. "" without the flag. Error,
/// with the places that were searched, if there is none.
std::string model_folder(const TrainingArguments& arguments);
/// The configuration of --config_name (a file, or the name of a preset), else that of the folder, with the values of
/// --config_overrides. The preset `tiny` has as many ids as the vocabulary of bytes.
nn::BertConfig bert_config(const TrainingArguments& arguments, const std::string& folder);

/// A vocabulary with special tokens: WordPiece, or bytes with four further ids.
class BertVocabulary {
 public:
  /// That of --tokenizer_name, else of `folder`, else bytes.
  static BertVocabulary of(const TrainingArguments& arguments, const std::string& folder);
  /// The file or folder of the vocabulary; "" for bytes.
  [[nodiscard]] const std::string& place() const { return place_; }
  /// The tokens between [CLS] and [SEP], and between [SEP] and [SEP] those of a second text, at most `max_length`.
  [[nodiscard]] data::TokenizedText encode(const std::string& first, const std::string& second,
                                           std::int64_t max_length) const;
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  [[nodiscard]] std::int32_t size() const;
  [[nodiscard]] std::int32_t cls() const;
  [[nodiscard]] std::int32_t sep() const;
  [[nodiscard]] std::int32_t pad() const;
  [[nodiscard]] std::int32_t mask() const;
  [[nodiscard]] std::string name() const;
  /// A hash of everything on which the tokens of a text depend.
  [[nodiscard]] std::size_t hash() const;

 private:
  std::shared_ptr<const data::WordPieceTokenizer> tokenizer_;  // null: bytes
  std::string place_;
};

/// Error unless the model has an embedding for each id.
void check_vocabulary(const BertVocabulary& vocabulary, const nn::BertConfig& config,
                      const TrainingArguments& arguments);
/// --max_seq_length, or its default: the positions of the model, at most `most`. Error if it is more than the positions.
std::int64_t sequence_length(const TrainingArguments& arguments, const nn::BertConfig& config, std::int64_t most);
/// --length_buckets. Error if one is more than `length`, the largest length of a sample.
std::vector<std::int64_t> buckets_up_to(const TrainingArguments& arguments, std::int64_t length);

/// Samples in memory.
class MemorySource final : public data::Source {
 public:
  explicit MemorySource(std::vector<data::Arrays> samples) : samples_(std::move(samples)) {}
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  [[nodiscard]] data::Arrays get(std::int64_t i) const override { return samples_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<data::Arrays> samples_;
};
/// The inputs of a batch: input_ids, attention_mask, and token_type_ids if it has them.
nn::BertInputs bert_inputs_of(const TrainingSetup& setup, const BatchTensors& batch);
/// The losses of a classifier and the number of labels that have the largest of the logits [b, classes].
LossParts classified(const Tensor& logits, const Tensor& labels, double label_smoothing);
/// Loss and accuracy.
Metrics classification_metrics(const EvaluationSums& sums);
/// BERT, 12 layers, ….
std::string bert_text(const nn::BertConfig& config);

}  // namespace tessera::trainer
