// SPDX-License-Identifier: Apache-2.0
// Text for training a language model: one sequence of tokens, divided into blocks of equal length, as in Hugging Face's
// run_clm. A shorter block at the end is dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/data/token_file.h"

namespace tessera::data {

/// A sequence of tokens in blocks of equal length.
class BlockDataset {
 public:
  /// Blocks of tokens in memory. Error unless block_size >= 2: a block of one token predicts nothing.
  BlockDataset(std::vector<std::int32_t> tokens, std::int64_t block_size);
  /// Blocks of these tokens of a file, across the ends of documents. read() reads them from the file.
  BlockDataset(std::shared_ptr<const TokenFile> file, Interval tokens, std::int64_t block_size);
  /// The number of blocks.
  [[nodiscard]] std::int64_t size() const { return range_.size() / block_size_; }
  [[nodiscard]] std::int64_t block_size() const { return block_size_; }
  /// The number of tokens, including those at the end that do not fill a block.
  [[nodiscard]] std::int64_t token_count() const { return range_.size(); }
  /// Fills `into` with the tokens of block `i` from `first_column`. May be called by several threads.
  void read(std::int64_t i, std::int64_t first_column, std::span<std::int32_t> into) const;

 private:
  std::vector<std::int32_t> tokens_;
  std::shared_ptr<const TokenFile> file_;  // null: tokens_
  Interval range_;
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
/// test.txt). Errors name the folder and the expected file names; those of read_text_file().
RawText read_wikitext(const std::string& folder);

/// Returns the folder of `--dataset_name name --dataset_config_name config` under cache_dir or $TESSERA_DATA. The
/// error lists the searched folders and how to specify one.
std::string find_dataset_folder(const std::string& name, const std::string& config, const std::string& cache_dir);

}  // namespace tessera::data
