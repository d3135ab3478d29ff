// SPDX-License-Identifier: Apache-2.0
// GPT-2 spells the 256 bytes as printable characters, so that vocabularies are text files: '!' is byte 33, 'Ġ' is the
// space.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace tessera::data {

/// Returns the bytes in GPT-2's order, with the printable ones first. Byte gpt2_byte_order()[i] has id i.
const std::array<unsigned char, 256>& gpt2_byte_order();

/// Returns the spelling of a token's bytes in vocabulary files.
std::string spell_bytes(std::string_view bytes);

/// The inverse of spell_bytes(). Throws an Error that names the token if a character is not the spelling of a byte.
std::string unspell_bytes(std::string_view token);

}  // namespace tessera::data
