// SPDX-License-Identifier: Apache-2.0
#include "clm/token_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "flags/input_files.h"
#include "tasks/token_lists.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/text.h"
#include "tessera/data/bpe_tokenizer.h"
#include "tessera/data/document_tokens.h"
#include "tessera/data/token_file.h"

namespace tessera::trainer {
namespace {

using Tokens = std::vector<std::int32_t>;

// To be increased when BpeTokenizer gives other tokens than before for the same text and vocabulary.
constexpr std::size_t kEncoding = 1;
// Tokens that are decoded or written at one time.
constexpr std::size_t kTokensAtOnce = 1 << 16;

// A hash of everything on which the tokens of a text depend.
std::size_t hash_of_vocabulary(const data::BpeTokenizer& tokenizer) {
  if (!tokenizer.fingerprint().empty()) return hash_text(tokenizer.fingerprint());
  std::size_t hash = hash_text(tokenizer.merges_text());
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    hash = hash_mix(hash, hash_text(tokenizer.decode(std::span(&id, 1))));
  return hash_mix(hash, static_cast<std::size_t>(tokenizer.end_of_text().value_or(-1)));
}

std::size_t key_of(std::size_t tokenizer, const std::string& text) {
  return hash_mix(hash_mix(kEncoding, tokenizer), hash_text(text));
}

// Returns "" without --cache_dir.
std::string cached_path(const TrainingArguments& arguments, std::size_t tokenizer, const std::string& text) {
  if (arguments.cache_dir.empty() || text.empty()) return {};
  const std::size_t key = key_of(tokenizer, text);
  return (std::filesystem::path(arguments.cache_dir) / "tessera_tokens" / fmt::format("{:016x}.tokens", key)).string();
}

bool may_be_cached(const TrainingArguments& arguments, const std::string& path) {
  std::error_code ignored;
  return !arguments.overwrite_cache && std::filesystem::exists(path, ignored);
}

// Damage to the tokens also changes the text.
bool decode_to(std::string_view text, const data::Tokenizer& tokenizer, const Tokens& tokens) {
  for (std::size_t start = 0; start < tokens.size(); start += kTokensAtOnce) {
    const auto part = std::span(tokens).subspan(start, std::min(kTokensAtOnce, tokens.size() - start));
    const std::string decoded = tokenizer.decode(part);
    if (!text.starts_with(decoded)) return false;
    text.remove_prefix(decoded.size());
  }
  return text.empty();
}

// Returns the tokenizer of `name` that the file records; null if it cannot be used, which read_tokens() reports.
std::unique_ptr<data::Tokenizer> recorded_tokenizer(const std::string& path, const std::string& name) {
  try {
    const auto file = data::TokenFile::open(path);
    return file.info().tokenizer == name ? file.make_tokenizer() : nullptr;
  } catch (const Error&) {
    return nullptr;
  }
}

// The content is read before it is parsed, because another run may replace the file.
std::optional<Tokens> read_tokens(const std::string& path, const data::Tokenizer& tokenizer, const std::string& text) {
  try {
    const std::string content = read_file(path);
    const auto file = data::TokenFile::parse(std::as_bytes(std::span(content)), path);
    const std::int64_t ends = file.info().end_of_text && file.info().tokens > 0 ? 1 : 0;  // of the document
    Tokens tokens(static_cast<std::size_t>(file.info().tokens - ends));
    file.read(0, tokens);
    require(file.info().vocab_size == tokenizer.vocab_size() && decode_to(text, tokenizer, tokens),
            "{}: its tokens are not those of the text", path);
    return tokens;
  } catch (const Error& error) {
    log_shared_warning("{}; the text is tokenized again", error.what());
    return std::nullopt;
  }
}

void write_tokens(const std::string& path, const data::Tokenizer& tokenizer, const Tokens& tokens,
                  const std::string& text) {
  make_folder(std::filesystem::path(path).parent_path().string());
  check_writable(path);  // an Error, also if the folder belongs to another user
  data::TokenFileWriter writer(path, tokenizer);
  for (std::size_t start = 0; start < tokens.size(); start += kTokensAtOnce)
    writer.append(std::span(tokens).subspan(start, std::min(kTokensAtOnce, tokens.size() - start)));
  writer.end_document(static_cast<std::int64_t>(text.size()));
  writer.finish();
}

Tokens tokens_of(const TrainingArguments& arguments, const std::string& path, const data::Tokenizer& tokenizer,
                 const std::string& text) {
  if (may_be_cached(arguments, path))
    if (auto cached = read_tokens(path, tokenizer, text)) return *std::move(cached);
  Tokens tokens = tokenizer.encode(text);
  if (!path.empty() && is_rank_zero())
    write_for_option("--cache_dir", [&] { write_tokens(path, tokenizer, tokens, text); });
  return tokens;
}

}  // namespace

TokenizedText tokenize_training_text(const TrainingArguments& arguments, const std::string& text) {
  const std::string& name = arguments.tokenizer_name;
  TokenizedText out;
  out.text_bytes = static_cast<std::int64_t>(text.size());
  if (!name.starts_with("bpe:")) {
    out.tokenizer = data::make_tokenizer(name, text);
    out.tokens = tokenize_text(arguments, *out.tokenizer, text);
    return out;
  }
  // Name and text determine the vocabulary.
  const std::string path = cached_path(arguments, hash_text(name), text);
  if (may_be_cached(arguments, path)) out.tokenizer = recorded_tokenizer(path, name);
  if (!out.tokenizer) out.tokenizer = data::make_tokenizer(name, text);
  out.tokens = tokens_of(arguments, path, *out.tokenizer, text);
  return out;
}

std::vector<std::int32_t> tokenize_text(const TrainingArguments& arguments, const data::Tokenizer& tokenizer,
                                        const std::string& text) {
  // Bytes are their own tokens, and WordPiece does not decode to the text.
  const auto* bpe = dynamic_cast<const data::BpeTokenizer*>(&tokenizer);
  if (bpe == nullptr) return tokenizer.encode(text);
  if (!bpe->keeps_text()) {
    const auto make = [&] { return TokenLists{tokenizer.encode(text)}; };
    TokenLists lists = cached_token_lists(arguments, key_of(hash_of_vocabulary(*bpe), text), make);
    return lists.empty() ? tokenizer.encode(text) : std::move(lists.front());
  }
  return tokens_of(arguments, cached_path(arguments, hash_of_vocabulary(*bpe), text), tokenizer, text);
}

namespace {

struct DocumentSums {
  std::size_t hash = 0;  // of the texts
  std::int64_t bytes = 0;
};

DocumentSums sums_of(const std::vector<data::TextInput>& documents, const std::string& column) {
  DocumentSums out;
  for (const data::TextInput& input : documents)
    data::read_documents(input, column, [&](std::string_view text, bool ends_document) {
      out.hash = hash_mix(hash_mix(out.hash, hash_text(text)), ends_document ? 1 : 0);
      out.bytes += static_cast<std::int64_t>(text.size());
    });
  return out;
}

}  // namespace

TokenizedText tokenize_other_documents(const TrainingArguments& arguments, const data::Tokenizer& tokenizer,
                                       const std::vector<data::TextInput>& documents) {
  const std::string column = text_column(arguments);
  const DocumentSums sums = sums_of(documents, column);
  const auto make = [&] { return TokenLists{data::tokens_of_documents(documents, column, tokenizer)}; };
  const auto* bpe = dynamic_cast<const data::BpeTokenizer*>(&tokenizer);
  TokenLists lists;
  if (bpe != nullptr)
    lists = cached_token_lists(arguments, hash_mix(hash_mix(kEncoding, hash_of_vocabulary(*bpe)), sums.hash), make);
  if (lists.size() != 1) lists = make();  // nothing is cached
  return {.tokenizer = nullptr, .tokens = std::move(lists.front()), .text_bytes = sums.bytes};
}

TokenizedText tokenize_training_documents(const TrainingArguments& arguments,
                                          const std::vector<data::TextInput>& documents) {
  const std::string& name = arguments.tokenizer_name;
  const bool is_trained = name.starts_with("bpe:");
  auto tokenizer = data::make_tokenizer(
      name, is_trained ? data::beginning_of_documents(documents, text_column(arguments)) : std::string());
  TokenizedText out = tokenize_other_documents(arguments, *tokenizer, documents);
  out.tokenizer = std::move(tokenizer);
  return out;
}

}  // namespace tessera::trainer
