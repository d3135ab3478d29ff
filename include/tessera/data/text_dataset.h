// SPDX-License-Identifier: Apache-2.0
// Text as a language model is trained on it: tokens laid end to end and cut into blocks of one length, as Hugging Face's run_clm
// does; what is left at the end is dropped.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/data/tokenizer.h"

namespace tessera::data {

class BlockDataset {
 public:
  /// Error unless block_size >= 2: a block of one token predicts nothing.
  BlockDataset(std::vector<std::int32_t> tokens, std::int64_t block_size);
  /// The number of blocks.
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()) / block_size_; }
  [[nodiscard]] std::int64_t block_size() const { return block_size_; }
  [[nodiscard]] std::span<const std::int32_t> block(std::int64_t i) const;

 private:
  std::vector<std::int32_t> tokens_;
  std::int64_t block_size_;
};

/// (training text, validation text): the last `validation_percentage` percent of the bytes are held out, cut at a whole UTF-8
/// character. (Hugging Face holds out the first lines.)
/// Error unless 0 <= validation_percentage < 100.
std::pair<std::string_view, std::string_view> split_text(std::string_view text, double validation_percentage);

/// The raw texts of a corpus on disk.
struct RawText {
  std::string train;
  std::string validation;  // empty when the corpus has none
  std::string test;
};

/// Reads a WikiText folder: wiki.train.raw, wiki.valid.raw, wiki.test.raw (or .tokens, or train.txt, valid.txt, test.txt). Error
/// naming the folder and the names looked for.
RawText read_wikitext(const std::string& folder);

/// The folder of `--dataset_name name --dataset_config_name config` under cache_dir or $TESSERA_DATA; the error lists where it was
/// looked for and how to give it.
std::string find_dataset_folder(const std::string& name, const std::string& config, const std::string& cache_dir);

}  // namespace tessera::data
