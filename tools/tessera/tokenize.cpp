// SPDX-License-Identifier: Apache-2.0
// `tessera tokenize INPUT… -o OUT.tokens`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "command_line.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/log.h"
#include "tessera/base/text.h"
#include "tessera/data/document_tokens.h"
#include "tessera/data/token_file.h"

namespace tessera::command {
namespace {

data::TokenFileInfo write_tokens(const std::vector<data::TextInput>& inputs, const std::string& column,
                                 const data::Tokenizer& tokenizer, const std::string& path) {
  data::TokenFileWriter writer(path, tokenizer);
  data::tokenize_documents(inputs, column, tokenizer,
                           {.tokens = [&](std::span<const std::int32_t> tokens) { writer.append(tokens); },
                            .end = [&](std::int64_t text_bytes) { writer.end_document(text_bytes); }});
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
      "{}: {} document{}, {} token{} (u{}) of {}, vocabulary {}\n"
      "{} bytes of text in {:.2f} s: {:.2f} MB/s, {:.2f} million tokens/s\n",
      path, info.documents, info.documents == 1 ? "" : "s", info.tokens, info.tokens == 1 ? "" : "s",
      8 * info.token_bytes, info.tokenizer, info.vocab_size, info.text_bytes, seconds,
      static_cast<double>(info.text_bytes) / seconds / kMega, static_cast<double>(info.tokens) / seconds / kMega);
}

// A vocabulary is trained in a pass of its own.
void check_standard_input(const std::vector<std::string>& inputs, const std::string& tokenizer) {
  const auto count = std::count(inputs.begin(), inputs.end(), "-");
  if (count > 1) throw UsageError("standard input (-) can be an input only once");
  if (count == 1 && tokenizer.starts_with("bpe:"))
    throw UsageError(fmt::format(
        "--tokenizer {} reads the text twice, and standard input (-) can be read only once; give a file, or "
        "the file of a vocabulary",
        tokenizer));
}

int tokenize(const Arguments& arguments) {
  const auto path = arguments.value("o");
  if (!path || *path == "-") throw UsageError("-o needs the file to write");
  const std::string name = arguments.value_or("tokenizer", "bytes");
  const auto inputs = data::find_texts(arguments.inputs());
  for (const std::string& input : arguments.inputs())
    if (const std::string text = data::skipped_files_text(input); !text.empty()) log_warning("{}", text);
  std::error_code ignored;
  for (const data::TextInput& input : inputs)
    if (std::filesystem::equivalent(input.path, *path, ignored))
      throw UsageError(fmt::format("-o {} is also an input, which would be lost; give another name", *path));
  for (const auto& input : inputs)
    require(!data::TokenFile::is_token_file(input.path), "{} is a token file already; give text", input.path);
  check_standard_input(arguments.inputs(), name);
  const std::string column = arguments.value("text-column").value_or(data::default_text_column(inputs));
  const auto tokenizer = data::make_tokenizer(
      name, name.starts_with("bpe:") ? data::beginning_of_documents(inputs, column) : std::string());
  const auto start = std::chrono::steady_clock::now();
  const data::TokenFileInfo info = write_tokens(inputs, column, *tokenizer, *path);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  write_standard_output(arguments.has("json") ? summary(*path, info, seconds).str() : report(*path, info, seconds));
  return kGood;
}

void check_tokenizer(std::string_view /*option*/, const std::string& value) {
  if (value.starts_with("bpe:")) return data::check_bpe_name(value);
  std::error_code ignored;
  require(value == "bytes" || looks_like_path(value) || std::filesystem::exists(value, ignored),
          "\"{}\" is neither bytes, nor bpe:N, nor a file", value);
}

}  // namespace

const Verb kTokenize = {
    "tokenize",
    "writes text as a token file",
    "INPUT is a text file, a .jsonl, .json or .csv file, a folder of *.txt and *.jsonl files, or - for a text on "
    "standard\n"
    "input. A text file is one document, and so is each line of a .jsonl or .json file, and each row of a .csv file "
    "after the\n"
    "first. run_clm --train_file reads the result.",
    {{"o", "FILE", "the token file to write", {}, true},
     {"tokenizer", "NAME",
      "bytes (default); bpe:N, a vocabulary of at most N ids, trained on the first 64 MiB of the text; or a file: "
      "GPT-2's vocab.bpe, a merges.txt, a tokenizer.json",
      check_tokenizer},
     {"text-column", "KEY",
      "the key of the text in the lines of .jsonl files, or its column in .csv files; default: text, or else the first "
      "one"},
     {"json", "", "print the counts as JSON"}},
    tokenize,
    "INPUT...",
    "a text file, a .jsonl or .csv file, a folder of texts, or - for standard input",
    true};

}  // namespace tessera::command
