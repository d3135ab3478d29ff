// SPDX-License-Identifier: Apache-2.0
#include "csv_rows.h"

#include <utility>

#include "tessera/base/error.h"

namespace tessera::data {

void CsvRows::feed(std::string_view part) {
  constexpr std::size_t kLongestRow = std::size_t{1} << 30;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (bytes_ == 0 && part.starts_with(kByteOrderMark)) part.remove_prefix(kByteOrderMark.size());
  for (const char c : part) {
    take(c);
    ++bytes_;
    if (c == '\n') ++line_;
  }
  require(bytes_ - row_begin_ <= kLongestRow, "{}, line {}: the row is longer than {} bytes", path_, row_line_,
          kLongestRow);
}

void CsvRows::take(char c) {
  if (state_ == State::kQuoted) {
    if (c == '"')
      state_ = State::kQuoteInQuoted;
    else
      field_ += c;
    return;
  }
  if (state_ == State::kQuoteInQuoted) {
    if (c == '"') {  // doubled
      field_ += c;
      state_ = State::kQuoted;
      return;
    }
    if (c == '\r') return;  // of the end of the line
    require(c == ',' || c == '\n',
            "{}, line {}: text after the closing quotation mark of a field; a quotation mark in a field is doubled",
            path_, line_);
  }
  if (c == ',') return end_field();
  if (c == '\n') return end_row();
  if (state_ == State::kFieldBegins && c == '"') {
    state_ = State::kQuoted;
    quote_line_ = line_;
    return;
  }
  field_ += c;
  state_ = State::kPlain;
}

void CsvRows::end_field() {
  fields_.push_back(std::exchange(field_, {}));
  state_ = State::kFieldBegins;
}

void CsvRows::end_row() {
  if (state_ == State::kPlain && field_.ends_with('\r')) field_.pop_back();
  const bool is_blank = fields_.empty() && field_.empty() && state_ != State::kQuoteInQuoted;
  end_field();
  if (width_ == 0 && !is_blank) width_ = fields_.size();
  require(is_blank || fields_.size() == width_,
          "{}, line {}: has {} fields, but the first row has {}; a field with commas or line breaks must be between "
          "quotation marks",
          path_, row_line_, fields_.size(), width_);
  if (!is_blank) take_(fields_, row_line_);
  fields_.clear();
  row_begin_ = bytes_ + 1;
  row_line_ = line_ + 1;
}

void CsvRows::finish() {
  require(state_ != State::kQuoted, "{}, line {}: a quotation mark is not closed", path_, quote_line_);
  if (!fields_.empty() || state_ != State::kFieldBegins) end_row();
}

}  // namespace tessera::data
