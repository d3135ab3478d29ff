// SPDX-License-Identifier: Apache-2.0
// Rows of CSV files, as in RFC 4180: fields are separated by commas, and a field between quotation marks may have commas, line
// breaks and doubled quotation marks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

class CsvRows {
 public:
  /// Takes the fields of a row, and the line on which the row begins, from 1. The fields may be moved.
  using TakeRow = std::function<void(std::vector<std::string>& fields, std::int64_t line)>;

  /// Errors call the file `path`.
  CsvRows(std::string path, TakeRow take) : path_(std::move(path)), take_(std::move(take)) {}
  /// Reads the next part of the file, which may end anywhere, but not in a byte order mark. Skips this mark and blank lines.
  /// Errors, with the line: a row with another number of fields than the first one; text after a closing quotation mark; a
  /// row of more than 2^30 bytes.
  void feed(std::string_view part);
  /// Ends the last row. Error if a quotation mark is not closed.
  void finish();

 private:
  enum class State { kFieldBegins, kPlain, kQuoted, kQuoteInQuoted };

  void take(char c);
  void end_field();
  void end_row();

  std::string path_;
  TakeRow take_;
  State state_ = State::kFieldBegins;
  std::vector<std::string> fields_;  // of the row, without the current one
  std::string field_;
  std::size_t width_ = 0;        // fields of each row; 0: before the first one
  std::size_t bytes_ = 0;        // of the file so far
  std::size_t row_begin_ = 0;    // in the file
  std::int64_t line_ = 1;        // of the next byte
  std::int64_t row_line_ = 1;    // on which the row begins
  std::int64_t quote_line_ = 1;  // of the last opening quotation mark
};

}  // namespace tessera::data
