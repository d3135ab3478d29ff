// SPDX-License-Identifier: Apache-2.0
#include "tasks/token_lists.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tessera/base/checksum.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/tensor/safetensors.h"

namespace tessera::trainer {
namespace {

constexpr const char* kTokens = "tokens";
constexpr const char* kEnds = "ends";  // where the lists end in the tokens
constexpr const char* kSum = "xxh3";   // of both

std::string sum_of_lists(const Literal& tokens, const Literal& ends) {
  Checksum sum;
  sum.add(tokens.bytes());
  sum.add(ends.bytes());
  return sum.text();
}

void write_lists(const std::string& path, const TokenLists& lists) {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> ends;
  for (const auto& list : lists) {
    tokens.insert(tokens.end(), list.begin(), list.end());
    ends.push_back(static_cast<std::int64_t>(tokens.size()));
  }
  SafetensorsFile file;
  file.tensors.emplace_back(kEnds, Literal::from({static_cast<std::int64_t>(ends.size())}, ends));
  file.tensors.emplace_back(kTokens, Literal::from({static_cast<std::int64_t>(tokens.size())}, tokens));
  file.metadata[kSum] = sum_of_lists(file.tensors[1].second, file.tensors[0].second);
  make_folder(std::filesystem::path(path).parent_path().string());
  write_safetensors(path, file);
}

TokenLists lists_in(const SafetensorsFile& file, const std::string& path) {
  const Literal* tokens = file.find(kTokens);
  const Literal* ends = file.find(kEnds);
  const auto sum = file.metadata.find(kSum);
  const bool is_complete = tokens != nullptr && ends != nullptr && tokens->type().dtype() == DType::kS32 &&
                           ends->type().dtype() == DType::kS64 && sum != file.metadata.end();
  require(is_complete && sum->second == sum_of_lists(*tokens, *ends),
          "{}: damaged: its tokens do not match its checksum", path);
  TokenLists out;
  std::int64_t start = 0;
  const auto all = tokens->data<std::int32_t>();
  for (const std::int64_t end : ends->data<std::int64_t>()) {
    require(end >= start && end <= static_cast<std::int64_t>(all.size()),
            "{}: damaged: a list of tokens ends at {}, but the file has {} tokens", path, end, all.size());
    out.emplace_back(all.begin() + start, all.begin() + end);
    start = end;
  }
  return out;
}

std::optional<TokenLists> read_lists(const std::string& path) {
  try {
    return lists_in(read_safetensors(path), path);
  } catch (const Error& error) {
    log_shared_warning("{}; the text is tokenized again", error.what());
    return std::nullopt;
  }
}

}  // namespace

TokenLists cached_token_lists(const TrainingArguments& arguments, std::size_t key,
                              const std::function<TokenLists()>& make) {
  if (arguments.cache_dir.empty()) return make();
  const std::string path =
      (std::filesystem::path(arguments.cache_dir) / "tessera_tokens" / fmt::format("{:016x}.safetensors", key))
          .string();
  std::error_code ignored;
  if (!arguments.overwrite_cache && std::filesystem::exists(path, ignored))
    if (auto found = read_lists(path)) return *std::move(found);
  TokenLists out = make();
  if (is_rank_zero()) write_for_option("--cache_dir", [&] { write_lists(path, out); });
  return out;
}

}  // namespace tessera::trainer
