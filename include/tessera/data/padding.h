// SPDX-License-Identifier: Apache-2.0
// Collators for sequences of different lengths, with the options of Hugging Face's tokenizers and collators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/collate.h"

namespace tessera::data {

struct PaddingOptions {
  std::string padding = "longest";      // "longest": to the longest sample of the batch; or "max_length"
  std::int64_t max_length = 0;          // the largest length of a sample; 0: no limit (only with "longest")
  std::int64_t pad_to_multiple_of = 1;  // rounds the length of the batch up, so that there are few shapes
  /// The lengths that a batch may have, in increasing order: a batch is padded to the first one that is not below its
  /// longest sample. If max_length is given, it is the last one, also if it is not listed. Empty: any length. Only with
  /// "longest", without pad_to_multiple_of.
  std::vector<std::int64_t> length_buckets{};
  std::int32_t pad_token_id = 0;
  bool truncation = false;  // truncate samples to max_length; otherwise a longer sample is an error
};

/// Pads `input_ids` with pad_token_id, `labels` with kIgnoredLabel, and `attention_mask`, `token_type_ids`,
/// `position_ids` and `segment_ids` with 0, along dim 0 of the samples. `labels` without dims, one for each sample, are
/// not padded. Other arrays must have equal shapes. If the samples do not have them, adds `attention_mask` (1 for the
/// tokens of samples) and `labels` (a copy of `input_ids`). The length is the same on all ranks, also if the longest
/// sample belongs to another rank. There are at most ceil(longest sample / pad_to_multiple_of) different shapes, or as
/// many as length_buckets.
class PaddingCollator : public Collator {
 public:
  /// Errors: another `padding`; "max_length" or truncation without max_length; a multiple below 1; buckets that do not
  /// increase, are below 1 or above max_length, or with other ways to choose the length. collate(): a sample that is
  /// longer than the last bucket.
  explicit PaddingCollator(PaddingOptions options);
  [[nodiscard]] Arrays collate(const std::vector<Arrays>& samples, const RowsToMake& request) const override;
  [[nodiscard]] bool needs_longest() const override { return options_.padding == "longest"; }

 private:
  /// The length to which a batch is padded whose longest sample has `longest` tokens.
  [[nodiscard]] std::int64_t length_of_batch(std::int64_t longest) const;

  PaddingOptions options_;
};

/// Reads a list of lengths, such as `64,128,256`. Error unless they are at least 1 and increase.
std::vector<std::int64_t> read_length_buckets(std::string_view text);

struct MlmOptions {
  double mlm_probability = 0.15;
  std::int32_t mask_token_id = 0;
  std::int32_t vocab_size = 0;              // random tokens are below this number
  std::vector<std::int32_t> special_ids{};  // never chosen: the ids that begin and end sequences
};

/// Masked language modelling (Devlin et al., 2019). Pads the samples, and chooses each token with probability
/// mlm_probability. Padding and special tokens are never chosen. Of the chosen tokens, 80% become the mask, 10% become
/// a random token, and 10% do not change. `labels` are the chosen tokens, and kIgnoredLabel elsewhere. The choice
/// depends only on the seed, the epoch and the number of the sample, so it is the same for all numbers of ranks,
/// threads and batch sizes. `input_ids` must be s32.
class MlmCollator final : public PaddingCollator {
 public:
  /// Errors: those of PaddingCollator; a probability outside [0, 1]; a mask that is not below vocab_size.
  MlmCollator(PaddingOptions padding, MlmOptions options);
  [[nodiscard]] Arrays collate(const std::vector<Arrays>& samples, const RowsToMake& request) const override;

 private:
  MlmOptions mlm_;
};

}  // namespace tessera::data
