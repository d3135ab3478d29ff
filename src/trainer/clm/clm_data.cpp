// SPDX-License-Identifier: Apache-2.0
// Makes the blocks to train on and to evaluate from texts, from documents (JSON Lines, folders) or from token files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "clm/token_cache.h"
#include "flags/input_files.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {
namespace {

struct Texts {
  std::string train;
  std::string validation;  // without --validation_file
};

Texts read_texts(const TrainingArguments& arguments) {
  if (!arguments.dataset_name.empty()) {
    auto raw = data::read_wikitext(
        data::find_dataset_folder(arguments.dataset_name, arguments.dataset_config_name, arguments.cache_dir));
    return {std::move(raw.train), std::move(raw.validation)};
  }
  std::string text = data::read_text_file(arguments.train_file);
  if (!arguments.validation_file.empty()) return {std::move(text), ""};
  const auto [train, validation] = data::split_text(text, arguments.validation_split_percentage);
  return {std::string(train), std::string(validation)};
}

double tokens_per_byte(std::int64_t tokens, std::int64_t bytes) {
  return bytes == 0 ? 1 : static_cast<double>(tokens) / static_cast<double>(bytes);
}

// The tokens to train on, of a file whose last tokens are held out.
std::int64_t count_to_train(const TrainingArguments& arguments, std::int64_t tokens) {
  if (!arguments.validation_file.empty()) return tokens;
  const double part = arguments.validation_split_percentage / 100;
  return tokens - static_cast<std::int64_t>(std::floor(part * static_cast<double>(tokens)));
}

void set_validation(ClmData& out, std::vector<std::int32_t> tokens, std::int64_t text_bytes, std::int64_t block_size) {
  out.validation_tokens_per_byte = tokens_per_byte(isize(tokens), text_bytes);
  out.validation.emplace(std::move(tokens), block_size);
}

ClmData data_of_text(const TrainingArguments& arguments, std::int64_t block_size) {
  const Texts texts = read_texts(arguments);
  TokenizedText train = tokenize_training_text(arguments, texts.train);
  ClmData out;
  out.tokenizer = std::move(train.tokenizer);
  out.train.emplace(std::move(train.tokens), block_size);
  if (arguments.validation_file.empty())
    set_validation(out, tokenize_text(arguments, *out.tokenizer, texts.validation), isize(texts.validation),
                   block_size);
  return out;
}

ClmData data_of_documents(const TrainingArguments& arguments, std::int64_t block_size) {
  TokenizedText all = tokenize_training_documents(arguments, data::find_texts({arguments.train_file}));
  const std::int64_t trained = count_to_train(arguments, isize(all.tokens));
  ClmData out;
  out.tokenizer = std::move(all.tokenizer);
  if (arguments.validation_file.empty()) {
    const auto held_out = all.tokens.begin() + static_cast<std::ptrdiff_t>(trained);
    out.validation_tokens_per_byte = tokens_per_byte(isize(all.tokens), all.text_bytes);
    out.validation.emplace(std::vector<std::int32_t>(held_out, all.tokens.end()), block_size);
  }
  all.tokens.resize(static_cast<std::size_t>(trained));
  out.train.emplace(std::move(all.tokens), block_size);
  return out;
}

// The error about a tokenizer that is not that of the token file, which `flag` names.
[[noreturn]] void fail_with_tokenizer(const TrainingArguments& arguments, const std::string& flag,
                                      const data::TokenFile& file, const data::Tokenizer& other) {
  const std::string& name = arguments.tokenizer_name;
  const data::TokenFileInfo& info = file.info();
  const std::vector<std::string>& derived = arguments.derived_flags;
  if (std::find(derived.begin(), derived.end(), "tokenizer_name") != derived.end())
    fail(
        "{5} {0} was written with the tokenizer {1} ({2} ids), but the model in {3} has another tokenizer ({4} ids); "
        "tokenize the text with that of the model: `tessera tokenize TEXT --tokenizer {3} -o FILE`; or give "
        "--tokenizer_name {1} to use the ids of the file",
        file.path(), info.tokenizer, info.vocab_size, name, other.vocab_size(), flag);
  require(other.vocab_size() == info.vocab_size,
          "--tokenizer_name {} has {} ids, but {} was written with the {} ids of {}", name, other.vocab_size(),
          file.path(), info.vocab_size, info.tokenizer);
  fail("--tokenizer_name {}: {} was written with another vocabulary, which has the same number of ids", name,
       file.path());
}

// Returns the tokenizer that the file of `flag` records. A flag, or the folder of the model, may have its vocabulary too.
std::unique_ptr<data::Tokenizer> tokenizer_of(const data::TokenFile& file, const TrainingArguments& arguments,
                                              const std::string& flag) {
  const std::string& name = arguments.tokenizer_name;
  if (name == "bytes") return file.make_tokenizer();  // the default of the flag
  if (name.starts_with("bpe:")) {
    require(name == file.info().tokenizer, "--tokenizer_name {}: {} was written with the tokenizer {}", name,
            file.path(), file.info().tokenizer);
    return file.make_tokenizer();
  }
  auto out = data::make_tokenizer(name, "");
  if (!file.was_written_with(*out)) fail_with_tokenizer(arguments, flag, file, *out);
  return out;
}

ClmData data_of_tokens(const TrainingArguments& arguments, std::int64_t block_size) {
  const auto file = std::make_shared<const data::TokenFile>(data::TokenFile::open(arguments.train_file));
  const data::TokenFileInfo& info = file->info();
  const std::int64_t trained = count_to_train(arguments, info.tokens);
  ClmData out;
  out.tokenizer = tokenizer_of(*file, arguments, "--train_file");
  out.train.emplace(file, Interval{0, trained}, block_size);
  if (!arguments.validation_file.empty()) return out;
  out.validation_tokens_per_byte = tokens_per_byte(info.tokens, info.text_bytes);
  out.validation.emplace(file, Interval{trained, info.tokens}, block_size);
  return out;
}

// Without a text to train on, there only is a tokenizer.
ClmData data_without_training(const TrainingArguments& arguments) {
  ClmData out;
  const std::string& path = arguments.validation_file;
  out.tokenizer = data::TokenFile::is_token_file(path)
                      ? tokenizer_of(data::TokenFile::open(path), arguments, "--validation_file")
                      : data::make_tokenizer(arguments.tokenizer_name, "");
  return out;
}

ClmData data_to_train(const TrainingArguments& arguments, std::int64_t block_size) {
  const std::string& path = arguments.train_file;
  if (data::TokenFile::is_token_file(path)) return data_of_tokens(arguments, block_size);
  return names_documents(path) ? data_of_documents(arguments, block_size) : data_of_text(arguments, block_size);
}

void read_validation_tokens(const std::string& path, std::int64_t block_size, ClmData& out) {
  const auto file = std::make_shared<const data::TokenFile>(data::TokenFile::open(path));
  const data::TokenFileInfo& info = file->info();
  require(
      file->was_written_with(*out.tokenizer),
      "--validation_file {} was written with another tokenizer ({}, {} ids) than that of the training ({}, {} ids); "
      "tokenize both texts with one tokenizer",
      path, info.tokenizer, info.vocab_size, out.tokenizer->name(), out.tokenizer->vocab_size());
  out.validation_tokens_per_byte = tokens_per_byte(info.tokens, info.text_bytes);
  out.validation.emplace(file, Interval{0, info.tokens}, block_size);
}

// Makes the validation blocks of --validation_file, which may be of another kind than --train_file.
void read_validation_file(const TrainingArguments& arguments, std::int64_t block_size, ClmData& out) {
  const std::string& path = arguments.validation_file;
  if (data::TokenFile::is_token_file(path)) return read_validation_tokens(path, block_size, out);
  if (names_documents(path)) {
    TokenizedText read = tokenize_other_documents(arguments, *out.tokenizer, data::find_texts({path}));
    return set_validation(out, std::move(read.tokens), read.text_bytes, block_size);
  }
  const std::string text = data::read_text_file(path);
  set_validation(out, tokenize_text(arguments, *out.tokenizer, text), isize(text), block_size);
}

}  // namespace

ClmData load_clm_data(const TrainingArguments& arguments, std::int64_t block_size) {
  const bool has_text = arguments.do_train || has_training_text(arguments);
  ClmData out = has_text ? data_to_train(arguments, block_size) : data_without_training(arguments);
  if (!arguments.do_train && out.train && out.train->size() == 0) out.train.reset();
  require(
      !arguments.do_train || out.train->size() >= 1,
      "{} gives {} tokens to train on, fewer than the {} of a block; give a longer text or a smaller --block_size",
      arguments.train_file.empty() ? arguments.dataset_name : arguments.train_file,
      [&] { return std::to_string(out.train->token_count()); }, block_size);
  if (!arguments.validation_file.empty()) read_validation_file(arguments, block_size, out);
  if (out.validation && out.validation->size() == 0) out.validation.reset();
  require(out.validation || arguments.validation_file.empty(),
          "--validation_file {} has less than a block of {} tokens; give a longer text or a smaller --block_size",
          arguments.validation_file, block_size);
  require(out.train || out.validation, "{} gives no block of {} tokens; give a longer text or a smaller --block_size",
          arguments.train_file.empty() ? arguments.dataset_name : arguments.train_file, block_size);
  return out;
}

}  // namespace tessera::trainer
