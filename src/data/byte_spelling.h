// SPDX-License-Identifier: Apache-2.0
// GPT-2 spells the 256 bytes as printable characters, so that vocabularies are text files: '!' is byte 33, 'Ġ' is the blank.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace tessera::data {

/// The bytes in GPT-2's order: the printable ones first. Byte kByteOrder[i] has id i.
const std::array<unsigned char, 256>& gpt2_byte_order();

/// A token's bytes as vocabulary files write them.
std::string spell_bytes(std::string_view bytes);

/// The inverse; Error `…` naming the token when a character stands for no byte.
std::string unspell_bytes(std::string_view token);

}  // namespace tessera::data
