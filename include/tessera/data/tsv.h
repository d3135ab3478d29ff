// SPDX-License-Identifier: Apache-2.0
// Tables of texts: with tabs between the columns, as in GLUE, or CSV.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

/// The rows of a table.
struct TsvTable {
  std::string name;
  std::vector<std::string> columns;            // of the header
  std::vector<std::vector<std::string>> rows;  // each with as many fields
  std::int64_t skipped = 0;                    // rows with too few fields
  std::vector<std::int64_t> lines{};           // of each row in the file, from 1

  /// The index of a column; -1 if there is none.
  [[nodiscard]] int find(std::string_view column) const;
};

struct TsvOptions {
  std::vector<std::string> columns{};  // of a file without a header; none: the first line is the header
  bool skips_short_rows = false;       // skip rows with too few fields, and drop fields that have no column
};

/// Parses lines of fields; the first line is the header. Quotes have no meaning. Blank lines and the byte order mark
/// are skipped. Errors name `name` and the line: no header, a column that occurs twice, another number of fields than
/// the header has; and those of require_text().
TsvTable parse_tsv(std::string_view text, std::string name, const TsvOptions& options = {});
/// Reads a file. Errors: those of parse_tsv().
TsvTable read_tsv(const std::string& path);
/// Reads a table: CSV, with a header, if the suffix is .csv, else as read_tsv(). Errors: those of read_tsv(); a row of
/// CSV with another number of fields than the header; JSON Lines.
TsvTable read_table(const std::string& path);

}  // namespace tessera::data
