// SPDX-License-Identifier: Apache-2.0
// GPT-2's splitting of a text into pieces that BPE never merges across.
#pragma once

#include <functional>
#include <string_view>

namespace tessera::data {

/// Calls `take` with each piece in order; joined they are the text. Bytes that are no UTF-8 are pieces of their own.
void split_like_gpt2(std::string_view text, const std::function<void(std::string_view)>& take);

}  // namespace tessera::data
