// SPDX-License-Identifier: Apache-2.0
// The common content of all vocabulary files, from which the tables for encoding are built.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/data/bpe_tokenizer.h"

namespace tessera::data {

struct BpeTokenizer::Vocabulary {
  std::unordered_map<std::string, std::int32_t> id_of;      // tokens in GPT-2's spelling
  std::vector<std::pair<std::string, std::string>> merges;  // by rank, in GPT-2's spelling
  std::optional<std::int32_t> end_of_text;

  /// Returns the 256 bytes in GPT-2's order.
  static Vocabulary of_bytes();
};

/// Parses the merges of a vocab.bpe or merges.txt. Errors begin with `name:line`.
std::vector<std::pair<std::string, std::string>> parse_merges(std::string_view text, const std::string& name);

}  // namespace tessera::data
