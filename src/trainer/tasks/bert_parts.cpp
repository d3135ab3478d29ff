// SPDX-License-Identifier: Apache-2.0
#include "bert_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "flags/config_overrides.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/data/padding.h"
#include "tessera/trainer/model_names.h"

namespace tessera::trainer {
namespace {

namespace fs = std::filesystem;

// The ids of bytes are followed by those of the special tokens.
constexpr std::int32_t kPadByte = 256;
constexpr std::int32_t kClsByte = 257;
constexpr std::int32_t kSepByte = 258;
constexpr std::int32_t kMaskByte = 259;
constexpr std::int32_t kByteCount = 260;

bool has_vocabulary(const std::string& folder) {
  return fs::exists(fs::path(folder) / "vocab.txt") || fs::exists(fs::path(folder) / "tokenizer.json");
}

}  // namespace

std::string model_folder(const TrainingArguments& arguments) {
  const std::string& name = arguments.model_name_or_path;
  if (name.empty()) return "";
  if (fs::is_directory(name)) return name;
  if (std::string found = named_model_folder(name, arguments.cache_dir, "model_name_or_path"); !found.empty())
    return found;
  const std::string link = dangling_link_text(name);
  require(link.empty(), "--model_name_or_path {}: {}", name, link);
  const std::string in_cache = arguments.cache_dir.empty() ? "" : fmt::format(" or {}/{}", arguments.cache_dir, name);
  fail(
      "--model_name_or_path {0}: there is no folder {0}{1}, and no model of this name in --cache_dir or $HF_HOME/hub; "
      "give a "
      "folder with config.json and model.safetensors. To train from initial values, give --config_name {0} instead",
      name, in_cache);
}

nn::BertConfig bert_config(const TrainingArguments& arguments, const std::string& folder) {
  const std::string& name = arguments.config_name;
  const std::string path = name.empty() ? folder + "/config.json" : arguments.config_file();
  const std::string json = name == "tiny"                 ? nn::BertConfig::tiny(kByteCount).to_json()
                           : name == "bert-base-uncased"  ? nn::BertConfig::base().to_json()
                           : name == "bert-large-uncased" ? nn::BertConfig::large().to_json()
                                                          : read_file(path);
  return nn::BertConfig::from_json(with_overrides(arguments, json, path), name_with_overrides(arguments, path));
}

BertVocabulary BertVocabulary::of(const TrainingArguments& arguments, const std::string& folder) {
  BertVocabulary out;
  std::string path = arguments.tokenizer_name == "bytes" ? "" : arguments.tokenizer_name;
  if (path.empty() && !folder.empty() && has_vocabulary(folder)) path = folder;
  if (!path.empty())
    out.tokenizer_ = std::make_shared<const data::WordPieceTokenizer>(data::WordPieceTokenizer::from_file(path));
  out.place_ = path;
  return out;
}

data::TokenizedText BertVocabulary::encode(const std::string& first, const std::string& second,
                                           std::int64_t max_length) const {
  if (tokenizer_)
    return second.empty() ? tokenizer_->encode_text(first, {.max_length = max_length})
                          : tokenizer_->encode_pair(first, second, {.max_length = max_length});
  data::TokenizedText out;
  std::vector<std::int32_t> a = encode(first);
  std::vector<std::int32_t> b = encode(second);
  const std::int64_t room = max_length - (second.empty() ? 2 : 3);
  while (isize(a) + isize(b) > room) (a.size() > b.size() ? a : b).pop_back();
  out.input_ids.push_back(kClsByte);
  out.input_ids.insert(out.input_ids.end(), a.begin(), a.end());
  out.input_ids.push_back(kSepByte);
  out.token_type_ids.assign(out.input_ids.size(), 0);
  if (second.empty()) return out;
  out.input_ids.insert(out.input_ids.end(), b.begin(), b.end());
  out.input_ids.push_back(kSepByte);
  out.token_type_ids.resize(out.input_ids.size(), 1);
  return out;
}

std::vector<std::int32_t> BertVocabulary::encode(std::string_view text) const {
  return tokenizer_ ? tokenizer_->encode(text) : data::ByteTokenizer().encode(text);
}
std::int32_t BertVocabulary::size() const { return tokenizer_ ? tokenizer_->vocab_size() : kByteCount; }
std::int32_t BertVocabulary::cls() const { return tokenizer_ ? tokenizer_->cls_id() : kClsByte; }
std::int32_t BertVocabulary::sep() const { return tokenizer_ ? tokenizer_->sep_id() : kSepByte; }
std::int32_t BertVocabulary::pad() const { return tokenizer_ ? tokenizer_->pad_id() : kPadByte; }
std::int32_t BertVocabulary::mask() const { return tokenizer_ ? tokenizer_->mask_id() : kMaskByte; }
std::size_t BertVocabulary::hash() const {
  // To be increased when WordPieceTokenizer gives other tokens than before for the same text and vocabulary.
  constexpr std::size_t kEncoding = 1;
  if (!tokenizer_) return kEncoding;
  const data::WordPieceOptions& options = tokenizer_->options();
  const std::string flags =
      fmt::format("{} {} {} {} {}", options.lower_case, options.strip_accents.value_or(options.lower_case),
                  options.handle_chinese_chars, options.max_word_characters, fmt::join(tokenizer_->special_ids(), " "));
  return hash_mix(hash_mix(kEncoding, hash_text(tokenizer_->vocab_text())), hash_text(flags));
}
std::string BertVocabulary::name() const { return tokenizer_ ? tokenizer_->name() : "bytes"; }

void check_vocabulary(const BertVocabulary& vocabulary, const nn::BertConfig& config,
                      const TrainingArguments& arguments) {
  check_vocabulary_size(arguments, vocabulary.name(), vocabulary.size(), config.vocab_size);
}

std::int64_t sequence_length(const TrainingArguments& arguments, const nn::BertConfig& config, std::int64_t most) {
  const std::int64_t length = arguments.max_seq_length.value_or(std::min(config.max_position_embeddings, most));
  require(length <= config.max_position_embeddings, "--max_seq_length {} is more than the {} positions of {}", length,
          config.max_position_embeddings, arguments.config_file());
  return length;
}

std::vector<std::int64_t> buckets_up_to(const TrainingArguments& arguments, std::int64_t length) {
  std::vector<std::int64_t> out = data::read_length_buckets(arguments.length_buckets);
  const std::int64_t last = out.empty() ? 0 : out.back();
  require(last <= length, "--length_buckets has {}, more than --max_seq_length {}", last, length);
  return out;
}

nn::BertInputs bert_inputs_of(const TrainingSetup& setup, const BatchTensors& batch) {
  return {input_of(setup, batch, "input_ids"), input_of(setup, batch, "attention_mask"),
          batch.has("token_type_ids") ? input_of(setup, batch, "token_type_ids") : Tensor()};
}

std::string bert_text(const nn::BertConfig& config) {
  return fmt::format("BERT, {} layers, width {}, {} heads, vocabulary {}", config.num_hidden_layers, config.hidden_size,
                     config.num_attention_heads, config.vocab_size);
}

}  // namespace tessera::trainer
