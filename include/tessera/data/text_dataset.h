// SPDX-License-Identifier: Apache-2.0
// Text for training a language model: one sequence of tokens, divided into blocks of equal length, as in Hugging
// Face's run_clm. A shorter rest at the end is dropped.
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

/// Returns (training text, validation text). The last `validation_percentage` percent of the bytes are held out,
/// rounded to a complete UTF-8 character. (Hugging Face holds out the first lines.) Error unless 0 <=
/// validation_percentage < 100.
std::pair<std::string_view, std::string_view> split_text(std::string_view text, double validation_percentage);

/// The raw texts of a corpus on disk.
struct RawText {
  std::string train;
  std::string validation;  // empty if the corpus has none
  std::string test;
};

/// Reads a WikiText folder: wiki.train.raw, wiki.valid.raw, wiki.test.raw (or .tokens, or train.txt, valid.txt,
/// test.txt). Errors name the folder and the expected file names.
RawText read_wikitext(const std::string& folder);

/// Returns the folder of `--dataset_name name --dataset_config_name config` under cache_dir or $TESSERA_DATA. The
/// error lists the searched folders and how to specify one.
std::string find_dataset_folder(const std::string& name, const std::string& config, const std::string& cache_dir);

}  // namespace tessera::data
