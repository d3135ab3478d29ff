// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/document_tokens.h"

#include <algorithm>
#include <utility>

namespace tessera::data {
namespace {

constexpr std::size_t kTrainingBytes = std::size_t{64} << 20;

}  // namespace

std::string beginning_of_documents(const std::vector<TextInput>& inputs, const std::string& column) {
  std::string out;
  for (const TextInput& input : inputs) {
    if (out.size() >= kTrainingBytes) break;
    read_documents(input, column, [&](std::string_view text, bool /*ends_document*/) {
      out += text.substr(0, kTrainingBytes - std::min(kTrainingBytes, out.size()));
    });
  }
  return out;
}

void tokenize_documents(const std::vector<TextInput>& inputs, const std::string& column, const Tokenizer& tokenizer,
                        const DocumentTaker& take) {
  std::int64_t text_bytes = 0;  // of the document so far
  std::vector<std::int32_t> suffix = tokenizer.document_suffix();
  if (!suffix.empty() && suffix.back() == tokenizer.end_of_text()) suffix.pop_back();  // the taker adds it
  for (const TextInput& input : inputs)
    read_documents(input, column, [&](std::string_view text, bool ends_document) {
      const bool begins = text_bytes == 0;
      if (begins && !text.empty()) take.tokens(tokenizer.document_prefix());
      take.tokens(begins ? tokenizer.encode(text) : tokenizer.encode_continued(text));
      text_bytes += static_cast<std::int64_t>(text.size());
      if (ends_document && text_bytes > 0) take.tokens(suffix);
      if (ends_document) take.end(std::exchange(text_bytes, 0));
    });
}

std::vector<std::int32_t> tokens_of_documents(const std::vector<TextInput>& inputs, const std::string& column,
                                              const Tokenizer& tokenizer) {
  std::vector<std::int32_t> out;
  tokenize_documents(
      inputs, column, tokenizer,
      {.tokens = [&](std::span<const std::int32_t> more) { out.insert(out.end(), more.begin(), more.end()); },
       .end =
           [&](std::int64_t /*text_bytes*/) {
             if (const auto end = tokenizer.end_of_text()) out.push_back(*end);
           }});
  return out;
}

}  // namespace tessera::data
