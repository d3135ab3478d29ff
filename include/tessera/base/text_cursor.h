// SPDX-License-Identifier: Apache-2.0
// A position in a text, for hand-written readers. It skips blanks and comments, and formats errors:
//
//   <input>:3:14: expected ")" after the operands of add
//     %x = f32[2] add(%a, %b
//                          ^
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/error.h"

namespace tessera {

/// A position in a text.
class TextCursor {
 public:
  /// `text` must outlive the cursor. Without a file name, errors quote the text instead of giving a line and a column.
  explicit TextCursor(std::string_view text, std::string_view file_name = {}) : text_(text), file_(file_name) {}

  [[nodiscard]] std::size_t position() const { return position_; }
  void seek(std::size_t position) { position_ = position; }
  [[nodiscard]] std::string_view text() const { return text_; }

  /// Skips white space, `// ..` to the end of a line and `/* .. */`.
  void skip_blanks();
  /// The next character after blanks; '\0' at the end.
  char peek();
  bool at_end() { return peek() == '\0' && position_ >= text_.size(); }
  /// True if these characters follow (after blanks).
  bool next_is(std::string_view characters);
  /// If these characters follow, moves past them and returns true.
  bool take(std::string_view characters);
  /// The same for a word. Returns false if the word is only the beginning of a longer identifier.
  bool take_word(std::string_view word);
  /// Moves past these characters. Error `expected "characters" where` if they do not follow.
  void expect(std::string_view characters, std::string_view where);

  /// The identifier that follows: letters, digits and `_ . -` (but not `->`); "" if there is none. Does not move.
  std::string_view peek_identifier();
  /// The same, and moves past it. Error "expected {what}" if there is none.
  std::string_view identifier(std::string_view what);
  /// Reads an integer. Errors: there is none, or it does not fit 64 bits.
  std::int64_t integer(std::string_view what);
  /// Reads a text in double quotes and returns it without quotes and escapes.
  std::string quoted(std::string_view what);
  /// Reads the raw text of an attribute's value, without comments. It ends at a blank or comma outside of brackets
  /// and quotes, or at the bracket that closes the surrounding text.
  std::string value(std::string_view what);

  /// The error to throw for `position`.
  [[nodiscard]] Error error_at(std::size_t position, std::string_view message) const;
  [[noreturn]] void fail_at(std::size_t position, std::string_view message) const { throw error_at(position, message); }
  /// The error for the next character after blanks: `expected {what}, got "x"`.
  [[noreturn]] void fail_expected(std::string_view what);
  /// Returns `file:line:column: `. excerpt() returns the source line with a caret, without the final line break.
  [[nodiscard]] std::string place(std::size_t position) const;
  [[nodiscard]] std::string excerpt(std::size_t position) const;

 private:
  void copy_quoted(std::string& out);
  std::string_view text_;
  std::string file_;
  std::size_t position_ = 0;
};

}  // namespace tessera
