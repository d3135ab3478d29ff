// SPDX-License-Identifier: Apache-2.0
// Makes the blocks to train on and to evaluate from text or from token files.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "clm/token_cache.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {
namespace {

struct Texts {
  std::string train;
  std::string validation;
};

Texts read_texts(const TrainingArguments& arguments) {
  if (!arguments.dataset_name.empty()) {
    auto raw = data::read_wikitext(
        data::find_dataset_folder(arguments.dataset_name, arguments.dataset_config_name, arguments.cache_dir));
    return {std::move(raw.train), std::move(raw.validation)};
  }
  const std::string text = read_file(arguments.train_file);
  if (!arguments.validation_file.empty()) return {text, read_file(arguments.validation_file)};
  const auto [train, validation] = data::split_text(text, arguments.validation_split_percentage);
  return {std::string(train), std::string(validation)};
}

ClmData data_of_text(const TrainingArguments& arguments, std::int64_t block_size) {
  const Texts texts = read_texts(arguments);
  TokenizedText train = tokenize_training_text(arguments, texts.train);
  ClmData out;
  out.tokenizer = std::move(train.tokenizer);
  out.train.emplace(std::move(train.tokens), block_size);
  auto held_out = tokenize_text(arguments, *out.tokenizer, texts.validation);
  if (static_cast<std::int64_t>(held_out.size()) < block_size) return out;
  out.validation_tokens_per_byte = static_cast<double>(held_out.size()) / static_cast<double>(texts.validation.size());
  out.validation.emplace(std::move(held_out), block_size);
  return out;
}

// Returns the tokenizer that the file records. A flag may give its vocabulary at another place.
std::unique_ptr<data::Tokenizer> tokenizer_of(const data::TokenFile& file, const std::string& given) {
  if (given == "bytes") return file.make_tokenizer();  // the default of the flag
  if (given.starts_with("bpe:")) {
    require(given == file.info().tokenizer, "--tokenizer_name {}: {} was written with the tokenizer {}", given,
            file.path(), file.info().tokenizer);
    return file.make_tokenizer();
  }
  auto out = data::make_tokenizer(given, "");
  require(out->vocab_size() == file.info().vocab_size, "--tokenizer_name {}: has {} ids; {} was written with {} of {}",
          given, out->vocab_size(), file.path(), file.info().vocab_size, file.info().tokenizer);
  const std::string& written = file.info().vocabulary;
  require(written.empty() || out->vocabulary().empty() || out->vocabulary() == written,
          "--tokenizer_name {}: {} was written with another vocabulary of as many ids", given, file.path());
  return out;
}

// Makes the validation blocks of --validation_file, which is text or a token file.
void read_validation_file(const TrainingArguments& arguments, const data::TokenFileInfo& train, std::int64_t block_size,
                          ClmData& out) {
  const std::string& path = arguments.validation_file;
  if (!data::TokenFile::is_token_file(path)) {
    const std::string text = read_file(path);
    auto tokens = tokenize_text(arguments, *out.tokenizer, text);
    out.validation_tokens_per_byte = static_cast<double>(tokens.size()) / static_cast<double>(text.size());
    out.validation.emplace(std::move(tokens), block_size);
    return;
  }
  const auto file = std::make_shared<const data::TokenFile>(data::TokenFile::open(path));
  const data::TokenFileInfo& info = file->info();
  require(info.vocab_size == train.vocab_size && info.vocabulary == train.vocabulary,
          "--validation_file {} was written with the tokenizer {}, --train_file {} with {}", path, info.tokenizer,
          arguments.train_file, train.tokenizer);
  out.validation_tokens_per_byte = static_cast<double>(info.tokens) / static_cast<double>(info.text_bytes);
  out.validation.emplace(file, Interval{0, info.tokens}, block_size);
}

ClmData data_of_tokens(const TrainingArguments& arguments, std::int64_t block_size) {
  const auto file = std::make_shared<const data::TokenFile>(data::TokenFile::open(arguments.train_file));
  const data::TokenFileInfo& info = file->info();
  ClmData out;
  out.tokenizer = tokenizer_of(*file, arguments.tokenizer_name);
  std::int64_t trained = info.tokens;
  if (arguments.validation_file.empty()) {
    const double part = arguments.validation_split_percentage / 100;
    trained -= static_cast<std::int64_t>(std::floor(part * static_cast<double>(info.tokens)));
    out.validation_tokens_per_byte = static_cast<double>(info.tokens) / static_cast<double>(info.text_bytes);
    out.validation.emplace(file, Interval{trained, info.tokens}, block_size);
  } else {
    read_validation_file(arguments, info, block_size, out);
  }
  out.train.emplace(file, Interval{0, trained}, block_size);
  if (out.validation->size() == 0) out.validation.reset();
  return out;
}

}  // namespace

ClmData load_clm_data(const TrainingArguments& arguments, std::int64_t block_size) {
  const bool has_tokens = data::TokenFile::is_token_file(arguments.train_file);
  ClmData out = has_tokens ? data_of_tokens(arguments, block_size) : data_of_text(arguments, block_size);
  require(out.train->size() >= 1,
          "{} gives {} tokens to train on, less than a block of {}; give a longer text or a smaller --block_size",
          arguments.train_file.empty() ? arguments.dataset_name : arguments.train_file, out.train->token_count(),
          block_size);
  require(out.validation || arguments.validation_file.empty(),
          "--validation_file {} has less than a block of {} tokens; give a longer text or a smaller --block_size",
          arguments.validation_file, block_size);
  return out;
}

}  // namespace tessera::trainer
