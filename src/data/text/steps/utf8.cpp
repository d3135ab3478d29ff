// SPDX-License-Identifier: Apache-2.0
#include "utf8.h"

#include <utf8proc.h>

namespace tessera::data {
namespace {

bool is_white_space_at(std::string_view text, std::size_t length) {
  utf8proc_int32_t c = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(length), &c);
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  constexpr utf8proc_int32_t kNextLine = 0x85;
  const utf8proc_category_t category = utf8proc_category(c);
  return c == kNextLine || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool surrogate = first == 0xED && byte(1) >= 0xA0;
  const bool too_high = first == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || too_high ? 0 : length;
}

std::size_t utf8_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t length = utf8_length(text.substr(end));
    if (length == 0) break;
    end += length;
  }
  return end;
}

std::size_t not_utf8_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && utf8_length(text.substr(end)) == 0) ++end;
  return end;
}

std::size_t white_space_at_start(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t length = utf8_length(text.substr(end));
    if (length == 0 || !is_white_space_at(text.substr(end), length)) break;
    end += length;
  }
  return end;
}

std::size_t white_space_at_end(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0) {
    std::size_t start = begin - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0U) == 0x80U) --start;
    const std::size_t length = utf8_length(text.substr(start));
    if (length != begin - start || !is_white_space_at(text.substr(start), length)) break;
    begin = start;
  }
  return text.size() - begin;
}

}  // namespace tessera::data
