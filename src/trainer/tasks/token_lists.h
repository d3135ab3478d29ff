// SPDX-License-Identifier: Apache-2.0
// Tokens in --cache_dir of texts that their tokens do not give back, such as those of WordPiece. A file has a checksum,
// because its tokens cannot be compared with the text:
//
//   CACHE_DIR/tessera_tokens/0123456789abcdef.safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// The tokens of several texts, such as the lines of a file.
using TokenLists = std::vector<std::vector<std::int32_t>>;

/// Returns what `make` returns. `key` is a hash of everything on which it depends. Later runs read it from --cache_dir,
/// unless --overwrite_cache is given. Every rank reads the file, and rank 0 writes it. A damaged file is ignored with a
/// warning and replaced. If it cannot be written, the run continues with a warning.
TokenLists cached_token_lists(const TrainingArguments& arguments, std::size_t key,
                              const std::function<TokenLists()>& make);

}  // namespace tessera::trainer
