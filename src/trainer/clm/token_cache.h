// SPDX-License-Identifier: Apache-2.0
// Tokens of texts in --cache_dir. Byte-level BPE takes minutes for a large text, so later runs read the tokens from a
// token file. Its name is a hash of the text and of the tokenizer:
//
//   CACHE_DIR/tessera_tokens/0123456789abcdef.tokens
//
// Every rank reads it, and rank 0 writes it. A file whose tokens do not decode to the text is ignored with a warning and
// replaced. If a file cannot be written, the run continues with a warning. If the tokenizer changes texts, so that tokens
// cannot be compared with the text, the file is that of tasks/token_lists.h. So it is for documents, between which are
// tokens that the text does not have.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/data/text_files.h"
#include "tessera/data/tokenizer.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

struct TokenizedText {
  std::unique_ptr<data::Tokenizer> tokenizer;
  std::vector<std::int32_t> tokens;
  std::int64_t text_bytes = 0;
};
/// Makes the tokenizer of --tokenizer_name and the tokens of the training text. `bpe:N` is trained on this text; if its
/// tokens are cached, so is the vocabulary. Errors: those of data::make_tokenizer().
TokenizedText tokenize_training_text(const TrainingArguments& arguments, const std::string& text);
/// Returns the tokens of another text.
std::vector<std::int32_t> tokenize_text(const TrainingArguments& arguments, const data::Tokenizer& tokenizer,
                                        const std::string& text);

/// Makes the tokenizer of --tokenizer_name and the tokens of the documents to train on, which are those of a token file of the
/// documents. Their tokens are cached, but not a vocabulary that is trained on them.
TokenizedText tokenize_training_documents(const TrainingArguments& arguments,
                                          const std::vector<data::TextInput>& documents);
/// Returns the tokens of other documents, without a tokenizer.
TokenizedText tokenize_other_documents(const TrainingArguments& arguments, const data::Tokenizer& tokenizer,
                                       const std::vector<data::TextInput>& documents);

}  // namespace tessera::trainer
