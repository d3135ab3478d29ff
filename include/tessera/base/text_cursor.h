// SPDX-License-Identifier: Apache-2.0
// A place in a text that a hand-written reader moves along; skips blanks and comments, words the errors.
//
//   <input>:3:14: expected ")" behind the operands
//     %x = f32[2] add(%a, %b
//                          ^
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/error.h"

namespace tessera {

class TextCursor {
 public:
  /// `text` must outlive the cursor. Without a file name, errors quote the text instead of naming line and column.
  explicit TextCursor(std::string_view text, std::string_view file_name = {}) : text_(text), file_(file_name) {}

  [[nodiscard]] std::size_t position() const { return position_; }
  void seek(std::size_t position) { position_ = position; }
  [[nodiscard]] std::string_view text() const { return text_; }

  /// Skips white space, `// ..` to the end of a line and `/* .. */`.
  void skip_blanks();
  /// The next character behind blanks; '\0' at the end.
  char peek();
  bool at_end() { return peek() == '\0' && position_ >= text_.size(); }
  /// True when these characters come next (behind blanks).
  bool next_is(std::string_view characters);
  /// Moves behind them if they come next.
  bool take(std::string_view characters);
  /// The same for a whole word: not when more identifier characters follow.
  bool take_word(std::string_view word);
  void expect(std::string_view characters, std::string_view where);

  /// Letters, digits and `_ . -` (but not `->`); "" when none come next. Does not move.
  std::string_view peek_identifier();
  /// The same, moving behind it; error "expected {what}" when there is none.
  std::string_view identifier(std::string_view what);
  std::int64_t integer(std::string_view what);
  /// A text in double quotes, without them and unescaped.
  std::string quoted(std::string_view what);
  /// The raw text of an attribute's value, comments taken out: up to a blank or comma outside of brackets and quotes, or the
  /// bracket that closes what is around it.
  std::string value(std::string_view what);

  /// The error to throw for `position`.
  [[nodiscard]] Error error_at(std::size_t position, std::string_view message) const;
  [[noreturn]] void fail_at(std::size_t position, std::string_view message) const { throw error_at(position, message); }
  /// At the next character behind blanks: `expected {what}, got "x"`.
  [[noreturn]] void fail_expected(std::string_view what);
  /// `file:line:column: ` and, without the final line break, the source line with a caret.
  [[nodiscard]] std::string place(std::size_t position) const;
  [[nodiscard]] std::string excerpt(std::size_t position) const;

 private:
  void copy_quoted(std::string& out);
  std::string_view text_;
  std::string file_;
  std::size_t position_ = 0;
};

}  // namespace tessera
