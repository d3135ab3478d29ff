// SPDX-License-Identifier: Apache-2.0
// Writes a tokenizer with the rules of GPT-2 as the files of Hugging Face's libraries.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <set>

#include "byte_spelling.h"
#include "tessera/base/text.h"
#include "tessera/data/bpe_tokenizer.h"

namespace tessera::data {
namespace {

namespace json = boost::json;

json::object byte_level(bool trims_offsets) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", trims_offsets}, {"use_regex", true}};
}

json::object end_of_text_token(std::int32_t id) {
  return {{"id", id},        {"content", kEndOfText}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false},   {"special", true}};
}

// Names the class that keeps the steps of tokenizer.json. Otherwise AutoTokenizer takes the class of the model, which for
// Llama adds tokens to a text.
json::object config() {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"bos_token", kEndOfText},
          {"eos_token", kEndOfText},
          {"clean_up_tokenization_spaces", false}};
}

}  // namespace

std::map<std::string, std::string> BpeTokenizer::hugging_face_files() const {
  if (vocabulary().empty() || !end_of_text_) return {};
  std::vector<std::string> spelled;
  for (const std::string& bytes : bytes_of_id_) spelled.push_back(spell_bytes(bytes));
  json::object vocab;
  for (std::int32_t id = 0; id < vocab_size(); ++id) vocab[at(spelled, id)] = id;
  json::array merges;
  std::set<std::pair<std::int32_t, std::int32_t>> known;
  for (const auto& pair : order_)  // a repeated pair has its first rank here, but its last one there
    if (known.insert(pair).second) merges.emplace_back(at(spelled, pair.first) + ' ' + at(spelled, pair.second));
  const json::object model{{"type", "BPE"},
                           {"dropout", nullptr},
                           {"unk_token", nullptr},
                           {"continuing_subword_prefix", nullptr},
                           {"end_of_word_suffix", nullptr},
                           {"fuse_unk", false},
                           {"vocab", std::move(vocab)},
                           {"merges", std::move(merges)}};
  const json::object all{{"version", "1.0"},
                         {"truncation", nullptr},
                         {"padding", nullptr},
                         {"added_tokens", json::array{end_of_text_token(*end_of_text_)}},
                         {"normalizer", nullptr},
                         {"pre_tokenizer", byte_level(true)},
                         {"post_processor", byte_level(false)},
                         {"decoder", byte_level(true)},
                         {"model", model}};
  return {{"tokenizer.json", json::serialize(all) + "\n"}, {"tokenizer_config.json", json::serialize(config()) + "\n"}};
}

}  // namespace tessera::data
