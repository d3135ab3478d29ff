// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/text_cursor.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "tessera/base/text.h"

namespace tessera {
namespace {

bool is_identifier_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

bool is_quote(char c) { return c == '"' || c == '\''; }

char closing(char open) { return open == '(' ? ')' : open == '[' ? ']' : '}'; }

}  // namespace

void TextCursor::skip_blanks() {
  while (position_ < text_.size()) {
    if (is_blank(text_[position_])) {
      ++position_;
      continue;
    }
    if (text_[position_] != '/' || position_ + 1 >= text_.size()) return;
    if (text_[position_ + 1] == '/') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (text_[position_ + 1] == '*') {
      const auto end = text_.find("*/", position_ + 2);
      if (end == std::string_view::npos) fail_at(position_, "this comment is never closed");
      position_ = end + 2;
    } else {
      return;
    }
  }
}

char TextCursor::peek() {
  skip_blanks();
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool TextCursor::next_is(std::string_view characters) {
  skip_blanks();
  return text_.substr(position_, characters.size()) == characters;
}

bool TextCursor::take(std::string_view characters) {
  if (!next_is(characters)) return false;
  position_ += characters.size();
  return true;
}

bool TextCursor::take_word(std::string_view word) {
  if (peek_identifier() != word) return false;
  position_ += word.size();
  return true;
}

void TextCursor::expect(std::string_view characters, std::string_view where) {
  if (!take(characters)) fail_expected(fmt::format("\"{}\" {}", characters, where));
}

std::string_view TextCursor::peek_identifier() {
  skip_blanks();
  std::size_t end = position_;
  while (end < text_.size() && is_identifier_char(text_[end]) &&
         !(text_[end] == '-' && end + 1 < text_.size() && text_[end + 1] == '>'))
    ++end;
  return text_.substr(position_, end - position_);
}

std::string_view TextCursor::identifier(std::string_view what) {
  const auto word = peek_identifier();
  if (word.empty()) fail_expected(what);
  position_ += word.size();
  return word;
}

std::int64_t TextCursor::integer(std::string_view what) {
  skip_blanks();
  std::int64_t value = 0;
  const char* first = text_.data() + position_;
  const auto [end, code] = std::from_chars(first, text_.data() + text_.size(), value);
  if (code == std::errc::result_out_of_range) fail_at(position_, fmt::format("{} does not fit 64 bits", what));
  if (code != std::errc()) fail_expected(what);
  position_ += static_cast<std::size_t>(end - first);
  return value;
}

// Copies a quoted text together with its quotes, without decoding escapes.
void TextCursor::copy_quoted(std::string& out) {
  const std::size_t start = position_;
  const char quote = text_[start];
  out += text_[position_++];
  while (position_ < text_.size()) {
    const char c = text_[position_++];
    out += c;
    if (c == quote) return;
    if (c == '\\' && position_ < text_.size()) out += text_[position_++];
  }
  fail_at(start, "this string is never closed");
}

std::string TextCursor::quoted(std::string_view what) {
  if (!is_quote(peek())) fail_expected(what);
  const std::size_t start = position_;
  std::string raw;
  copy_quoted(raw);
  try {
    return unquote(raw);
  } catch (const Error& error) {
    fail_at(start, error.what());
  }
}

std::string TextCursor::value(std::string_view what) {
  skip_blanks();
  std::string out;
  std::vector<std::size_t> open;  // the positions of the open brackets
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (is_quote(c)) {
      copy_quoted(out);
      continue;
    }
    if (c == '\\' && position_ + 1 < text_.size()) out += text_[position_++];
    if (c == '/' && (text_.substr(position_, 2) == "/*" || text_.substr(position_, 2) == "//")) {
      skip_blanks();
      continue;
    }
    if (open.empty() && (c == ',' || is_blank(c))) break;
    if (c == '(' || c == '[' || c == '{') open.push_back(position_);
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) break;
      const char wanted = closing(text_[open.back()]);
      if (c != wanted) fail_at(position_, fmt::format("expected \"{}\", got \"{}\"", wanted, c));
      open.pop_back();
    }
    out += text_[position_++];
  }
  if (!open.empty()) fail_at(open.back(), fmt::format("this \"{}\" is never closed", text_[open.back()]));
  if (out.empty()) fail_expected(what);
  return out;
}

void TextCursor::fail_expected(std::string_view what) {
  skip_blanks();
  if (position_ >= text_.size()) fail_at(position_, fmt::format("expected {}, got the end of the text", what));
  auto word = std::string(peek_identifier());
  if (word.empty()) {
    std::size_t size = 1;  // a complete UTF-8 character
    while (position_ + size < text_.size() && (static_cast<unsigned char>(text_[position_ + size]) & 0xC0U) == 0x80U)
      ++size;
    word = text_.substr(position_, size);
  }
  if (word.size() > 40) word = word.substr(0, 40) + "…";
  if (printable(word) != word)
    fail_at(position_, fmt::format("expected {}, got the byte 0x{:02x}", what, static_cast<unsigned char>(word[0])));
  fail_at(position_, fmt::format("expected {}, got \"{}\"", what, word));
}

std::string TextCursor::place(std::size_t position) const {
  position = std::min(position, text_.size());
  const auto before = text_.substr(0, position);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const auto start = before.rfind('\n');
  const auto column = start == std::string_view::npos ? position + 1 : position - start;
  return fmt::format("{}:{}:{}: ", file_, line, column);
}

std::string TextCursor::excerpt(std::size_t position) const {
  constexpr std::size_t kBefore = 80;
  constexpr std::size_t kAfter = 60;
  position = std::min(position, text_.size());
  const auto last_break = text_.substr(0, position).rfind('\n');
  std::size_t start = last_break == std::string_view::npos ? 0 : last_break + 1;
  std::size_t end = std::min(text_.find('\n', position), text_.size());
  std::string_view lead = "  ";
  if (position - start > kBefore) {
    start = position - kBefore;
    lead = "  …";
  }
  std::string_view tail;
  if (end - position > kAfter) {
    end = position + kAfter;
    tail = "…";
  }
  const std::string before = printable(text_.substr(start, position - start));
  std::string caret = lead.size() > 2 ? "   " : "  ";
  for (const char c : before)
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) caret += c == '\t' ? '\t' : ' ';
  std::string_view after = text_.substr(position, end - position);
  if (after.ends_with('\r')) after.remove_suffix(1);
  return fmt::format("{}{}{}{}\n{}^", lead, before, printable(after), tail, caret);
}

Error TextCursor::error_at(std::size_t position, std::string_view full_message) const {
  constexpr std::size_t kLongest = 1000;  // a name may be as long as the text
  const std::string message(full_message.size() <= kLongest ? full_message
                                                            : fmt::format("{}…", full_message.substr(0, kLongest)));
  if (!file_.empty()) return Error(fmt::format("{}{}\n{}", place(position), message, excerpt(position)));
  std::string quoted_text = printable(text_.substr(0, 200));
  if (text_.size() > 200) quoted_text += "…";
  return Error(fmt::format("{} at column {} of {}", message, position + 1, quoted_text));
}

}  // namespace tessera
