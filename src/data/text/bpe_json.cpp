// SPDX-License-Identifier: Apache-2.0
// Reads the tokenizer.json of Hugging Face's tokenizers.
#include <algorithm>

#include "bpe_vocabulary.h"
#include "steps/json_members.h"
#include "tessera/base/error.h"
#include "tessera/base/json.h"
#include "tessera/base/text.h"

namespace tessera::data {
namespace {

using Json = boost::json::value;

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

// Options of BPE that published models do not have.
void check_model(const Json& model, const std::string& name) {
  const Json* type = given_member(model, "type");
  require(type == nullptr || has_text(model, "type", "BPE"), "{}: model.type must be BPE, got {}", name,
          type == nullptr ? "none" : excerpt(*type));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    require(text_member(model, key, name).empty(), "{}: model.{} is not supported; it must be null", name, key);
  const Json* dropout = given_member(model, "dropout");
  require(dropout == nullptr || (dropout->is_number() && dropout->to_number<double>() == 0),
          "{}: model.dropout must be null, got {}", name, dropout == nullptr ? "none" : excerpt(*dropout));
}

// Ids of the special tokens around A in a template, from the object `special_tokens`.
void read_template(const Json& json, const std::string& place, std::vector<std::int32_t>& prefix,
                   std::vector<std::int32_t>& suffix) {
  bool is_after = false;
  for (const Json& one : list_member(json, "single", place)) {
    is_after = is_after || given_member(one, "Sequence") != nullptr;
    const Json* special = given_member(one, "SpecialToken");
    if (special == nullptr) continue;
    const std::string token = text_member(*special, "id", place);
    const Json* all = given_member(json, "special_tokens");
    const Json* entry = all == nullptr ? nullptr : given_member(*all, token);
    require(entry != nullptr, "{}: special_tokens lacks {}", place, [&] { return quote(token); });
    for (const Json& id : list_member(*entry, "ids", place)) {
      require(
          token_id(&id) >= 0, "{}: {} is not a valid id of {}", place, [&] { return excerpt(id); },
          [&] { return quote(token); });
      (is_after ? suffix : prefix).push_back(token_id(&id));
    }
  }
}

void read_post_processor(const Json* json, const std::string& place, std::vector<std::int32_t>& prefix,
                         std::vector<std::int32_t>& suffix) {
  if (json == nullptr) return;
  const std::string type = text_member(*json, "type", place);
  if (type == "ByteLevel") return;  // changes offsets only
  if (type == "TemplateProcessing") return read_template(*json, place, prefix, suffix);
  require(type == "Sequence", "{}: {} is not supported; ByteLevel, TemplateProcessing and Sequence are", place,
          type.empty() ? excerpt(*json) : type);
  for (const Json& one : list_member(*json, "processors", place)) read_post_processor(&one, place, prefix, suffix);
}

std::int32_t unknown_id(const std::unordered_map<std::string, std::int32_t>& ids, const std::string& token,
                        const std::string& name) {
  const auto it = ids.find(token);
  require(it != ids.end(), "{}: model.unk_token {} is not a token", name, [&] { return quote(token); });
  return it->second;
}

}  // namespace

void BpeTokenizer::Vocabulary::read_added_tokens(const Json& root, const std::string& name) {
  if (given_member(root, "added_tokens") == nullptr) return;
  for (const Json& entry : list_member(root, "added_tokens", name)) {
    const Json* content = given_member(entry, "content");
    const std::int32_t id = token_id(given_member(entry, "id"));
    require(content != nullptr && content->is_string() && id >= 0, "{}: an added token must have content and id", name);
    const std::string place = fmt::format("{}: added token {}", name, quote(content->get_string()));
    require(!flag_member(entry, "single_word", false, place), "{}: single_word true is not supported", place);
    AddedToken token{std::string(content->get_string()), id, flag_member(entry, "lstrip", false, place),
                     flag_member(entry, "rstrip", false, place)};
    const bool is_normalized = flag_member(entry, "normalized", !flag_member(entry, "special", false, place), place);
    if (!is_normalized) {
      add(std::move(token), rules.raw_tokens);
      continue;
    }
    AddedToken normalized = token;
    normalized.content = rules.normalizer.apply(token.content);
    AddedTokens ignored;
    add(std::move(token), ignored);
    rules.normalized_tokens.add(std::move(normalized));
  }
}

void BpeTokenizer::Vocabulary::read_rules(const Json& root, const std::string& name) {
  const Json& model = *given_member(root, "model");
  rules.normalizer = Normalizer::from_json(given_member(root, "normalizer"), name + ": normalizer");
  rules.pre_tokenizer = PreTokenizer::from_json(given_member(root, "pre_tokenizer"), name + ": pre_tokenizer");
  read_post_processor(given_member(root, "post_processor"), name + ": post_processor", rules.prefix, rules.suffix);
  rules.ignores_merges = flag_member(model, "ignore_merges", false, name + ": model");
  if (rules.pre_tokenizer.is_byte_level()) return;
  rules.has_byte_tokens = flag_member(model, "byte_fallback", false, name + ": model");
  rules.fuses_unknown = flag_member(model, "fuse_unk", false, name + ": model");
  const std::string unknown = text_member(model, "unk_token", name + ": model");
  require(rules.has_byte_tokens || !unknown.empty(),
          "{}: without the pre_tokenizer ByteLevel, model needs byte_fallback true or an unk_token", name);
  if (!unknown.empty()) rules.unknown = unknown_id(id_of, unknown, name);
}

BpeTokenizer BpeTokenizer::from_tokenizer_json(std::string_view json, std::string name) {
  const Json root = parse_json(json, name);
  const Json* model = given_member(root, "model");
  require(model != nullptr, "{}: has no model", name);
  check_model(*model, name);
  const Json* ids = given_member(*model, "vocab");
  const Json* merges = given_member(*model, "merges");
  require(ids != nullptr && merges != nullptr, "{}: model must have vocab and merges", name);
  Vocabulary vocabulary;
  vocabulary.id_of = read_ids(*ids, name);
  vocabulary.merges = read_merges(*merges, name);
  vocabulary.read_rules(root, name);
  vocabulary.read_added_tokens(root, name);
  vocabulary.end_of_text = find_end_of_text(vocabulary.id_of);
  const Json* splitting = given_member(root, "pre_tokenizer");
  const Rules& rules = vocabulary.rules;
  const bool is_gpt2 = splitting != nullptr && has_text(*splitting, "type", "ByteLevel") &&
                       flag_member(*splitting, "use_regex", true, name) && rules.normalizer.changes_nothing() &&
                       rules.raw_tokens.keeps_space() && rules.normalized_tokens.keeps_space() &&
                       !rules.ignores_merges && rules.prefix.empty() && rules.suffix.empty();
  if (!is_gpt2) vocabulary.rules.fingerprint = fmt::format("{:016x}", hash_text(json));
  return build(vocabulary, std::move(name));
}

}  // namespace tessera::data
