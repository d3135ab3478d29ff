// SPDX-License-Identifier: Apache-2.0
#include "basic_tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::data {
namespace {

using Character = utf8proc_int32_t;
using Characters = std::vector<Character>;

// Code points without a character are none, as in Hugging Face's fast tokenizer.
bool is_control(Character c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO: return true;
    default: return false;
  }
}

bool is_white_space(Character c) {
  if (c == '\t' || c == '\n' || c == '\r') return true;
  const utf8proc_category_t category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

// All ASCII symbols count, such as $ and ^, which Unicode does not class as punctuation.
bool is_punctuation(Character c) {
  if (c < 0x80)
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  const utf8proc_category_t category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

// The blocks of Chinese, Japanese and Korean ideographs.
bool is_chinese(Character c) {
  static constexpr std::array<std::pair<Character, Character>, 8> kBlocks = {{{0x4E00, 0x9FFF},
                                                                              {0x3400, 0x4DBF},
                                                                              {0x20000, 0x2A6DF},
                                                                              {0x2A700, 0x2B73F},
                                                                              {0x2B740, 0x2B81F},
                                                                              {0x2B920, 0x2CEAF},
                                                                              {0xF900, 0xFAFF},
                                                                              {0x2F800, 0x2FA1F}}};
  return std::any_of(kBlocks.begin(), kBlocks.end(), [&](const auto& b) { return c >= b.first && c <= b.second; });
}

// Skips bytes that are not UTF-8.
Characters characters_of(std::string_view text) {
  Characters out;
  out.reserve(text.size());
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    Character c = 0;
    const utf8proc_ssize_t size = std::max<utf8proc_ssize_t>(utf8proc_iterate(at, left, &c), 1);
    if (c >= 0) out.push_back(c);
    at += size;
    left -= size;
  }
  return out;
}

void append_utf8(Character c, std::string& out) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const utf8proc_ssize_t size = utf8proc_encode_char(c, bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size));
}

// Removes what is not text, and puts blanks around Chinese characters.
Characters cleaned(const Characters& given, bool handle_chinese_chars) {
  constexpr Character kReplacement = 0xFFFD;
  Characters out;
  out.reserve(given.size());
  for (const Character c : given) {
    if (c == 0 || c == kReplacement || is_control(c)) continue;
    if (is_white_space(c)) {
      out.push_back(' ');
    } else if (handle_chinese_chars && is_chinese(c)) {
      out.insert(out.end(), {' ', c, ' '});
    } else {
      out.push_back(c);
    }
  }
  return out;
}

// Decomposes the characters canonically and removes the marks.
Characters without_accents(const Characters& given) {
  if (std::all_of(given.begin(), given.end(), [](Character c) { return c < 0x80; })) return given;
  std::string text;
  for (const Character c : given) append_utf8(c, text);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  constexpr auto kForm = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  // A character decomposes into at most 4 others, none longer than its bytes times 4.
  Characters out(4 * given.size() + 4);
  const utf8proc_ssize_t count =
      utf8proc_decompose(bytes, size, out.data(), static_cast<utf8proc_ssize_t>(out.size()), kForm);
  ensure(count >= 0 && count <= static_cast<utf8proc_ssize_t>(out.size()), "utf8proc decomposes {} bytes into {}", size,
         count);
  out.resize(static_cast<std::size_t>(count));
  std::erase_if(out, [](Character c) { return utf8proc_category(c) == UTF8PROC_CATEGORY_MN; });
  return out;
}

Characters lowered(const Characters& given) {
  constexpr Character kDottedI = 0x130;
  constexpr Character kDotAbove = 0x307;
  Characters out;
  out.reserve(given.size());
  for (const Character c : given) {
    out.push_back(c == kDottedI ? 'i' : utf8proc_tolower(c));
    if (c == kDottedI) out.push_back(kDotAbove);  // the only character that becomes two
  }
  return out;
}

}  // namespace

std::vector<std::string> basic_words(std::string_view text, const BasicTokenizerOptions& options) {
  Characters characters = cleaned(characters_of(text), options.handle_chinese_chars);
  if (options.strip_accents) characters = without_accents(characters);
  if (options.lower_case) characters = lowered(characters);
  std::vector<std::string> out;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) out.push_back(std::exchange(word, {}));
  };
  for (const Character c : characters) {
    const bool is_alone = is_punctuation(c);
    if (is_alone || is_white_space(c)) end_word();
    if (is_white_space(c)) continue;
    append_utf8(c, word);
    if (is_alone) end_word();
  }
  end_word();
  return out;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace tessera::data
