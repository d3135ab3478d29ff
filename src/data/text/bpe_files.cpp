// SPDX-License-Identifier: Apache-2.0
// The vocabulary files of GPT-2: vocab.bpe, and vocab.json with merges.txt.
#include <algorithm>

#include "bpe_vocabulary.h"
#include "byte_spelling.h"
#include "steps/json_members.h"
#include "tessera/base/error.h"
#include "tessera/base/json.h"
#include "tessera/base/text.h"

namespace tessera::data {

std::unordered_map<std::string, std::int32_t> read_ids(const boost::json::value& vocabulary, const std::string& name) {
  const bool has_tokens = vocabulary.is_object() && !vocabulary.get_object().empty();
  require(has_tokens, "{}: the vocabulary must be an object of tokens and ids", name);
  std::unordered_map<std::string, std::int32_t> out;
  for (const auto& member : vocabulary.get_object()) {
    const std::int32_t id = token_id(&member.value());
    require(id >= 0, "{}: token {} has no valid id", name, [&] { return quote(member.key()); });
    out.emplace(member.key(), id);
  }
  return out;
}

std::pair<std::string, std::string> split_merge(std::string_view line, const std::string& place) {
  const auto blank = line.find(' ');
  const bool two_tokens = blank != std::string_view::npos && blank > 0 && blank + 1 < line.size() &&
                          line.find(' ', blank + 1) == std::string_view::npos;
  require(two_tokens, "{}: a merge is two tokens with a blank between them, got {}", place,
          [&] { return quote(line); });
  return {std::string(line.substr(0, blank)), std::string(line.substr(blank + 1))};
}

std::optional<std::int32_t> find_end_of_text(const std::unordered_map<std::string, std::int32_t>& ids) {
  for (const std::string_view name : {kEndOfText, std::string_view("<|end_of_text|>"), std::string_view("</s>")})
    if (const auto it = ids.find(std::string(name)); it != ids.end()) return it->second;
  return std::nullopt;
}

BpeTokenizer::Vocabulary BpeTokenizer::Vocabulary::of_bytes() {
  Vocabulary out;
  std::int32_t id = 0;
  for (const unsigned char byte : gpt2_byte_order()) {
    const char c = static_cast<char>(byte);
    out.id_of.emplace(spell_bytes({&c, 1}), id++);
  }
  return out;
}

void BpeTokenizer::Vocabulary::add(AddedToken token, AddedTokens& found_in) {
  const bool is_known = id_of.contains(token.content);
  id_of[token.content] = token.id;
  added.insert(token.id);
  if (!is_known) outside.insert(token.id);
  found_in.add(std::move(token));
}

std::vector<std::pair<std::string, std::string>> parse_merges(std::string_view text, const std::string& name) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // some editors write it
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::pair<std::string, std::string>> out;
  int number = 0;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    // The first line may be "#version: 0.2". A later line with # is a merge.
    if (line.empty() || (number == 1 && line.substr(0, 8) == "#version")) continue;
    out.push_back(split_merge(line, fmt::format("{}:{}", name, number)));
  }
  require(!out.empty(), "{}: contains no merges", name);
  return out;
}

BpeTokenizer BpeTokenizer::from_merges(std::string_view merges, std::string name) {
  Vocabulary vocabulary = Vocabulary::of_bytes();
  vocabulary.merges = parse_merges(merges, name);
  for (const auto& [left, right] : vocabulary.merges) {
    // If another pair has already produced this token, the token keeps its id.
    vocabulary.id_of.emplace(left + right, static_cast<std::int32_t>(vocabulary.id_of.size()));
  }
  vocabulary.end_of_text = static_cast<std::int32_t>(vocabulary.id_of.size());
  require(!vocabulary.id_of.contains(std::string(kEndOfText)),
          "{}: a merge produces {}, which is the end-of-text token", name, kEndOfText);
  vocabulary.add({std::string(kEndOfText), *vocabulary.end_of_text}, vocabulary.rules.raw_tokens);
  return build(vocabulary, std::move(name));
}

BpeTokenizer BpeTokenizer::from_vocab_and_merges(std::string_view vocab_json, std::string_view merges,
                                                 std::string name) {
  Vocabulary vocabulary;
  vocabulary.id_of = read_ids(parse_json(vocab_json, name), name);
  vocabulary.merges = parse_merges(merges, name);
  vocabulary.end_of_text = find_end_of_text(vocabulary.id_of);
  if (const auto mark = vocabulary.id_of.find(std::string(kEndOfText)); mark != vocabulary.id_of.end())
    vocabulary.add({mark->first, mark->second}, vocabulary.rules.raw_tokens);
  return build(vocabulary, std::move(name));
}

}  // namespace tessera::data
