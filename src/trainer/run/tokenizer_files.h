// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tessera/data/tokenizer.h"

namespace tessera::trainer {

/// Writes the tokenizer `name` (of --tokenizer_name: a file, a folder, `bytes` or `bpe:N`) into a model folder, so that a
/// program that loads the model finds it. `tokenizer` may be null if `name` is a file or folder. `bytes` has no files.
/// Files of another tokenizer are renamed to NAME.replaced. Called by one rank.
void write_tokenizer(const std::string& name, const data::Tokenizer* tokenizer, const std::string& folder);

}  // namespace tessera::trainer
