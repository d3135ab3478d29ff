// SPDX-License-Identifier: Apache-2.0
// The tokens of the documents in text files, JSON Lines files and folders, as `tessera tokenize` writes them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/text_files.h"
#include "tessera/data/tokenizer.h"

namespace tessera::data {

/// Returns the beginning of the documents, at most 64 MiB. `bpe:N` is trained on this text.
std::string beginning_of_documents(const std::vector<TextInput>& inputs, const std::string& column);

/// Receives the tokens of documents, in order. A document may arrive in several calls of `tokens`.
struct DocumentTaker {
  std::function<void(std::span<const std::int32_t>)> tokens;
  /// Called at the end of each document, with the number of bytes of its text. It should add the end of text, as
  /// TokenFileWriter::end_document() does.
  std::function<void(std::int64_t text_bytes)> end;
};
/// Tokenizes the documents with little memory. Each begins with the prefix of the tokenizer and ends with its suffix.
/// Errors: those of read_documents().
void tokenize_documents(const std::vector<TextInput>& inputs, const std::string& column, const Tokenizer& tokenizer,
                        const DocumentTaker& take);
/// Returns the tokens that a token file of the documents has.
std::vector<std::int32_t> tokens_of_documents(const std::vector<TextInput>& inputs, const std::string& column,
                                              const Tokenizer& tokenizer);

}  // namespace tessera::data
