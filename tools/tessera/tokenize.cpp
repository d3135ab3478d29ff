// SPDX-License-Identifier: Apache-2.0
// `tessera tokenize INPUT… -o OUT.tokens`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "command_line.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"
#include "tessera/data/text_files.h"
#include "tessera/data/token_file.h"

namespace tessera::command {
namespace {

// A vocabulary is trained on the beginning of the text.
constexpr std::size_t kTrainingBytes = std::size_t{64} << 20;

std::string training_text(const std::vector<data::TextInput>& inputs, const std::string& column) {
  std::string out;
  for (const auto& input : inputs) {
    if (out.size() >= kTrainingBytes) break;
    data::read_documents(input, column, [&](std::string_view text, bool /*ends_document*/) {
      out += text.substr(0, kTrainingBytes - std::min(kTrainingBytes, out.size()));
    });
  }
  return out;
}

data::TokenFileInfo write_tokens(const std::vector<data::TextInput>& inputs, const std::string& column,
                                 const data::Tokenizer& tokenizer, const std::string& path) {
  data::TokenFileWriter writer(path, tokenizer);
  std::int64_t text_bytes = 0;  // of the document so far
  std::vector<std::int32_t> suffix = tokenizer.document_suffix();
  if (!suffix.empty() && suffix.back() == tokenizer.end_of_text()) suffix.pop_back();  // the writer adds it
  for (const auto& input : inputs)
    data::read_documents(input, column, [&](std::string_view text, bool ends_document) {
      const bool begins = text_bytes == 0;
      if (begins && !text.empty()) writer.append(tokenizer.document_prefix());
      writer.append(begins ? tokenizer.encode(text) : tokenizer.encode_continued(text));
      text_bytes += static_cast<std::int64_t>(text.size());
      if (ends_document && text_bytes > 0) writer.append(suffix);
      if (ends_document) writer.end_document(std::exchange(text_bytes, 0));
    });
  require(writer.info().tokens > 0, "the input has no text, so {} is not written", path);
  writer.finish();
  return writer.info();
}

JsonObject summary(const std::string& path, const data::TokenFileInfo& info, double seconds) {
  JsonObject out;
  out.set("file", path);
  out.set("file_bytes", static_cast<std::int64_t>(std::filesystem::file_size(path)));
  out.set("tokenizer", info.tokenizer);
  out.set("vocab_size", info.vocab_size);
  out.set("token_bytes", info.token_bytes);
  out.set("documents", info.documents);
  out.set("tokens", info.tokens);
  out.set("text_bytes", info.text_bytes);
  out.set("seconds", seconds);
  out.set("tokens_per_second", static_cast<double>(info.tokens) / seconds);
  return out;
}

std::string report(const std::string& path, const data::TokenFileInfo& info, double seconds) {
  constexpr double kMega = 1e6;
  return fmt::format(
      "{}: {} documents, {} tokens (u{}) of {}, vocabulary {}\n"
      "{} bytes of text in {:.2f} s: {:.2f} MB/s, {:.2f} million tokens/s\n",
      path, info.documents, info.tokens, 8 * info.token_bytes, info.tokenizer, info.vocab_size, info.text_bytes,
      seconds, static_cast<double>(info.text_bytes) / seconds / kMega,
      static_cast<double>(info.tokens) / seconds / kMega);
}

int tokenize(const Arguments& arguments) {
  const auto path = arguments.value("o");
  if (!path || *path == "-") throw UsageError("-o needs the file to write");
  const std::string name = arguments.value_or("tokenizer", "bytes");
  const std::string column = arguments.value_or("text-column", "text");
  const auto inputs = data::find_texts(arguments.inputs());
  std::error_code ignored;
  for (const data::TextInput& input : inputs)
    if (std::filesystem::equivalent(input.path, *path, ignored))
      throw UsageError(fmt::format("-o {} is also an input, which would be lost; give another name", *path));
  for (const auto& input : inputs)
    require(!data::TokenFile::is_token_file(input.path), "{} is a token file already; give text", input.path);
  const auto tokenizer =
      data::make_tokenizer(name, name.starts_with("bpe:") ? training_text(inputs, column) : std::string());
  const auto start = std::chrono::steady_clock::now();
  const data::TokenFileInfo info = write_tokens(inputs, column, *tokenizer, *path);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  write_standard_output(arguments.has("json") ? summary(*path, info, seconds).str() : report(*path, info, seconds));
  return kGood;
}

void check_tokenizer(std::string_view /*option*/, const std::string& value) {
  if (value.starts_with("bpe:")) data::check_bpe_name(value);
}

}  // namespace

const Verb kTokenize = {
    "tokenize",
    "writes text as a file of tokens",
    "INPUT is a text file, a .jsonl file, or a folder of *.txt and *.jsonl files. A text file is one "
    "document, and so is each line of a\n"
    ".jsonl file. run_clm --train_file reads the result.",
    {{"o", "FILE", "the token file to write", {}, true},
     {"tokenizer", "NAME",
      "bytes (the default), bpe:N (N ids, trained on the first 64 MiB of the text), or a file: "
      "GPT-2's vocab.bpe, merges.txt or a tokenizer.json",
      check_tokenizer},
     {"text-column", "KEY", "the key of the text in the lines of .jsonl files; default: text"},
     {"json", "", "print the counts as JSON"}},
    tokenize,
    "INPUT...",
    "a text file, a .jsonl file, or a folder of these",
    true};

}  // namespace tessera::command
