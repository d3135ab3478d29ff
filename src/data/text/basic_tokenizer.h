// SPDX-License-Identifier: Apache-2.0
// The words of a text, as BERT divides it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

struct BasicTokenizerOptions {
  bool lower_case = true;
  bool strip_accents = true;
  bool handle_chinese_chars = true;
};

/// Returns the words, in UTF-8. Control characters and bytes that are not UTF-8 are removed; white space separates words;
/// each punctuation mark and each Chinese character is a word.
std::vector<std::string> basic_words(std::string_view text, const BasicTokenizerOptions& options);

/// The number of code points of UTF-8.
std::size_t count_characters(std::string_view text);

}  // namespace tessera::data
