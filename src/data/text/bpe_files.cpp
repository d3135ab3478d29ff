// SPDX-License-Identifier: Apache-2.0
// The vocabulary files of GPT-2 and Hugging Face.
#include <algorithm>

#include "bpe_vocabulary.h"
#include "byte_spelling.h"
#include "tessera/base/error.h"
#include "tessera/base/json.h"
#include "tessera/base/text.h"

namespace tessera::data {
namespace {

using Json = boost::json::value;

constexpr std::int64_t kMaxIds = 1 << 26;  // a larger vocabulary is a mistake in the file

// Returns the id, or -1 if the value is not an id.
std::int32_t id_of(const Json* value) {
  const bool is_id = value != nullptr && value->is_int64() && value->get_int64() >= 0 && value->get_int64() < kMaxIds;
  return is_id ? static_cast<std::int32_t>(value->get_int64()) : -1;
}

std::unordered_map<std::string, std::int32_t> read_ids(const Json& vocabulary, const std::string& name) {
  const bool has_tokens = vocabulary.is_object() && !vocabulary.get_object().empty();
  require(has_tokens, "{}: the vocabulary must be an object of tokens and ids", name);
  std::unordered_map<std::string, std::int32_t> out;
  for (const auto& member : vocabulary.get_object()) {
    const std::int32_t id = id_of(&member.value());
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

// Reads ["a b", …] or, in newer files, [["a", "b"], …].
std::vector<std::pair<std::string, std::string>> read_merges(const Json& merges, const std::string& name) {
  require(merges.is_array(), "{}: model.merges must be a list", name);
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& merge : merges.get_array()) {
    const std::string place = fmt::format("{}: merge {}", name, out.size());
    if (merge.is_string()) {
      out.push_back(split_merge(merge.get_string(), place));
      continue;
    }
    const auto* pair = merge.if_array();
    const bool is_pair = pair != nullptr && pair->size() == 2 && (*pair)[0].is_string() && (*pair)[1].is_string();
    require(is_pair, "{} is neither a string nor a pair of strings", place);
    out.emplace_back((*pair)[0].get_string(), (*pair)[1].get_string());
  }
  return out;
}

const Json* member(const Json& object, const char* key) {
  const Json* found = find_member(object, key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

bool is_text(const Json* value, std::string_view text) {
  return value != nullptr && value->is_string() && value->get_string() == text;
}

bool is_true(const Json* value) { return value != nullptr && value->is_bool() && value->get_bool(); }

// Only GPT-2's splitting is implemented. Another splitting would silently give other ids.
void check_splitting(const Json& root, const std::string& name) {
  const Json* splitting = member(root, "pre_tokenizer");
  const bool is_gpt2 = splitting != nullptr && is_text(member(*splitting, "type"), "ByteLevel") &&
                       !is_true(member(*splitting, "add_prefix_space"));
  require(is_gpt2, "{}: pre_tokenizer must be ByteLevel without add_prefix_space, got {}", name,
          splitting == nullptr ? "none" : excerpt(*splitting));
  require(member(root, "normalizer") == nullptr, "{}: a normalizer is not supported: ids would differ", name);
}

void add_special_tokens(const Json& root, const std::string& name, std::unordered_map<std::string, std::int32_t>& ids) {
  const Json* added = member(root, "added_tokens");
  if (added == nullptr) return;
  require(added->is_array(), "{}: added_tokens must be a list", name);
  for (const auto& token : added->get_array()) {
    const Json* content = member(token, "content");
    const std::int32_t id = id_of(member(token, "id"));
    require(content != nullptr && content->is_string() && id >= 0, "{}: an added token must have content and id", name);
    ids[std::string(content->get_string())] = id;
  }
}

std::optional<std::int32_t> find_end_of_text(const std::unordered_map<std::string, std::int32_t>& ids) {
  const auto it = ids.find(std::string(kEndOfText));
  if (it == ids.end()) return std::nullopt;
  return it->second;
}

}  // namespace

BpeTokenizer::Vocabulary BpeTokenizer::Vocabulary::of_bytes() {
  Vocabulary out;
  std::int32_t id = 0;
  for (const unsigned char byte : gpt2_byte_order()) {
    const char c = static_cast<char>(byte);
    out.id_of.emplace(spell_bytes({&c, 1}), id++);
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> parse_merges(std::string_view text, const std::string& name) {
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
  const bool is_new = vocabulary.id_of.emplace(std::string(kEndOfText), *vocabulary.end_of_text).second;
  require(is_new, "{}: a merge produces {}, which is the end-of-text token", name, kEndOfText);
  return build(vocabulary, std::move(name));
}

BpeTokenizer BpeTokenizer::from_vocab_and_merges(std::string_view vocab_json, std::string_view merges,
                                                 std::string name) {
  Vocabulary vocabulary;
  vocabulary.id_of = read_ids(parse_json(vocab_json, name), name);
  vocabulary.merges = parse_merges(merges, name);
  vocabulary.end_of_text = find_end_of_text(vocabulary.id_of);
  return build(vocabulary, std::move(name));
}

BpeTokenizer BpeTokenizer::from_tokenizer_json(std::string_view json, std::string name) {
  const Json root = parse_json(json, name);
  const Json* model = member(root, "model");
  require(model != nullptr, "{}: has no model", name);
  const Json* type = member(*model, "type");
  require(type == nullptr || is_text(type, "BPE"), "{}: model.type must be BPE, got {}", name,
          type == nullptr ? "none" : excerpt(*type));
  check_splitting(root, name);
  const Json* ids = member(*model, "vocab");
  const Json* merges = member(*model, "merges");
  require(ids != nullptr && merges != nullptr, "{}: model must have vocab and merges", name);
  Vocabulary vocabulary;
  vocabulary.id_of = read_ids(*ids, name);
  vocabulary.merges = read_merges(*merges, name);
  add_special_tokens(root, name, vocabulary.id_of);
  vocabulary.end_of_text = find_end_of_text(vocabulary.id_of);
  return build(vocabulary, std::move(name));
}

}  // namespace tessera::data
