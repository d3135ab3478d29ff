// SPDX-License-Identifier: Apache-2.0
// The common content of all vocabulary files, from which the tables for encoding are built.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "steps/added_tokens.h"
#include "steps/normalizer.h"
#include "steps/pre_tokenizer.h"
#include "tessera/data/bpe_tokenizer.h"

namespace tessera::data {

/// What happens to a text before and after the merges. Without a tokenizer.json, it is what GPT-2 does.
struct BpeTokenizer::Rules {
  AddedTokens raw_tokens;         // found in the text
  AddedTokens normalized_tokens;  // found in the normalized text
  Normalizer normalizer;
  PreTokenizer pre_tokenizer = PreTokenizer::gpt2();
  bool ignores_merges = false;          // for a piece that is a token
  bool has_byte_tokens = false;         // characters without a token become <0xNN> for each byte
  std::optional<std::int32_t> unknown;  // of characters without a token
  bool fuses_unknown = false;           // several in a row become one
  std::vector<std::int32_t> prefix;     // of each document
  std::vector<std::int32_t> suffix;
  std::string fingerprint;  // a hash of the file; "" for GPT-2's rules
};

struct BpeTokenizer::Vocabulary {
  std::unordered_map<std::string, std::int32_t> id_of;      // byte-level: tokens in GPT-2's spelling
  std::vector<std::pair<std::string, std::string>> merges;  // by rank, in the same spelling
  std::set<std::int32_t> added;                             // ids of added tokens, which have their own spelling
  std::set<std::int32_t> outside;                           // of these, the ids that merges and pieces do not know
  std::optional<std::int32_t> end_of_text;
  Rules rules;

  /// Returns the 256 bytes in GPT-2's order.
  static Vocabulary of_bytes();
  /// Adds a token that is found in texts. A model's token of this spelling gets its id.
  void add(AddedToken token, AddedTokens& found_in);
  /// Reads the rules, and the added tokens, of a tokenizer.json. Errors begin with `name`.
  void read_rules(const boost::json::value& root, const std::string& name);
  void read_added_tokens(const boost::json::value& root, const std::string& name);
};

/// Parses the merges of a vocab.bpe or merges.txt. Errors begin with `name:line`.
std::vector<std::pair<std::string, std::string>> parse_merges(std::string_view text, const std::string& name);
/// Parses `a b`. The error begins with `place`.
std::pair<std::string, std::string> split_merge(std::string_view line, const std::string& place);
/// Reads {"token": id, …}.
std::unordered_map<std::string, std::int32_t> read_ids(const boost::json::value& vocabulary, const std::string& name);
/// The id of the first of these tokens that the vocabulary has: <|endoftext|>, <|end_of_text|>, </s>.
std::optional<std::int32_t> find_end_of_text(const std::unordered_map<std::string, std::int32_t>& ids);

}  // namespace tessera::data
