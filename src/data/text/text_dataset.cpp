// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/text_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/options.h"
#include "tessera/data/text_files.h"

namespace tessera::data {

BlockDataset::BlockDataset(std::vector<std::int32_t> tokens, std::int64_t block_size)
    : tokens_(std::move(tokens)), range_{0, static_cast<std::int64_t>(tokens_.size())}, block_size_(block_size) {
  require(block_size >= 2, "block_size must be at least 2, got {}", block_size);
}

BlockDataset::BlockDataset(std::shared_ptr<const TokenFile> file, Interval tokens, std::int64_t block_size)
    : file_(std::move(file)), range_(tokens), block_size_(block_size) {
  require(block_size >= 2, "block_size must be at least 2, got {}", block_size);
  require(tokens.start >= 0 && tokens.start <= tokens.limit && tokens.limit <= file_->info().tokens,
          "{}: tokens {} to {} were requested, but the file has {}", file_->path(), tokens.start, tokens.limit,
          file_->info().tokens);
}

void BlockDataset::read(std::int64_t i, std::int64_t first_column, std::span<std::int32_t> into) const {
  const auto count = static_cast<std::int64_t>(into.size());
  ensure(i >= 0 && i < size() && first_column >= 0 && first_column + count <= block_size_,
         "columns {} to {} of block {} of {}", first_column, first_column + count, i, size());
  const std::int64_t start = range_.start + i * block_size_ + first_column;
  if (file_) return file_->read(start, into);
  std::copy_n(tokens_.begin() + start, count, into.begin());
}

std::pair<std::string_view, std::string_view> split_text(std::string_view text, double validation_percentage) {
  require(validation_percentage >= 0 && validation_percentage < 100,
          "validation_split_percentage must be in [0, 100), got {}", validation_percentage);
  const double held_out = static_cast<double>(text.size()) * validation_percentage / 100;
  std::size_t split_point = text.size() - static_cast<std::size_t>(std::floor(held_out));
  const auto continues_character = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U;
  };
  while (split_point < text.size() && continues_character(split_point)) ++split_point;
  return {text.substr(0, split_point), text.substr(split_point)};
}

namespace {

// Returns the content of the first of `names` that exists in the folder, or "" if none exists.
std::string read_first(const std::filesystem::path& folder, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    const std::string path = (folder / name).string();
    if (is_there(path)) return read_text_file(path);
  }
  return {};
}

}  // namespace

RawText read_wikitext(const std::string& folder) {
  const std::vector<std::string> train = {"wiki.train.raw", "wiki.train.tokens", "train.txt"};
  RawText out;
  out.train = read_first(folder, train);
  require(!out.train.empty(), "no training text in {}; looked for {}", folder, fmt::join(train, ", "));
  out.validation = read_first(folder, {"wiki.valid.raw", "wiki.valid.tokens", "valid.txt"});
  out.test = read_first(folder, {"wiki.test.raw", "wiki.test.tokens", "test.txt"});
  return out;
}

std::string find_dataset_folder(const std::string& name, const std::string& config, const std::string& cache_dir) {
  std::vector<std::string> roots;
  if (!cache_dir.empty()) roots.push_back(cache_dir);
  const std::string& shared = options().text("TESSERA_DATA");
  if (!shared.empty()) roots.push_back(shared);
  std::vector<std::string> looked;
  for (const auto& root : roots) {
    const std::filesystem::path base(root);
    // The archive of wikitext-2-raw-v1 unpacks to wikitext-2-raw.
    const std::string unpacked = config.ends_with("-v1") ? config.substr(0, config.size() - 3) : config;
    for (const auto& folder :
         {base / name / config, base / config, base / name / unpacked, base / unpacked, base / name}) {
      std::string path = folder.lexically_normal().string();
      if (std::filesystem::is_directory(path) && folder.has_filename()) return path;
      looked.push_back(path);
    }
  }
  fail("no folder for dataset {}{}{}; looked for {}; unpack its raw text into one of these, or give --train_file", name,
       config.empty() ? "" : " ", config,
       looked.empty() ? "nothing, as neither --cache_dir nor TESSERA_DATA is set"
                      : fmt::format("{}", fmt::join(looked, ", ")));
}

}  // namespace tessera::data
