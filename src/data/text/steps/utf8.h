// SPDX-License-Identifier: Apache-2.0
// Texts may have bytes that are not UTF-8. Steps that know characters leave such bytes alone.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera::data {

/// The length of the UTF-8 sequence at the start of `text`, or 0 if there is none. Overlong forms and surrogates are not
/// UTF-8. The text is not empty.
std::size_t utf8_length(std::string_view text);
/// The length of the longest prefix that is UTF-8.
std::size_t utf8_prefix(std::string_view text);
/// The number of bytes at the start that begin no UTF-8 sequence.
std::size_t not_utf8_prefix(std::string_view text);
/// The length of the white space at the start, and at the end, of a text, as Unicode defines it.
std::size_t white_space_at_start(std::string_view text);
std::size_t white_space_at_end(std::string_view text);

}  // namespace tessera::data
