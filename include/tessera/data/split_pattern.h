// SPDX-License-Identifier: Apache-2.0
// Splits a text into pieces as GPT-2 does. BPE never merges across pieces.
#pragma once

#include <functional>
#include <string_view>

namespace tessera::data {

/// Calls `take` with each piece in order. The concatenated pieces are the text. Bytes that are not UTF-8 are separate
/// pieces.
void split_like_gpt2(std::string_view text, const std::function<void(std::string_view)>& take);

}  // namespace tessera::data
