// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/tsv.h"

#include <algorithm>
#include <set>

#include "csv_rows.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/data/text_files.h"

namespace tessera::data {

int TsvTable::find(std::string_view column) const {
  const auto found = std::find(columns.begin(), columns.end(), column);
  return found == columns.end() ? -1 : static_cast<int>(found - columns.begin());
}

namespace {

void set_header(TsvTable& table, std::vector<std::string> columns, std::int64_t line) {
  const std::set<std::string> different(columns.begin(), columns.end());
  require(different.size() == columns.size(), "{}, line {}: a column occurs twice in the header", table.name, line);
  table.columns = std::move(columns);
}

TsvTable read_csv(const std::string& path) {
  TsvTable out{.name = path, .columns = {}, .rows = {}};
  const std::string text = read_file(path);
  require_text(text, path);
  CsvRows rows(path, [&](std::vector<std::string>& fields, std::int64_t line) {
    if (out.columns.empty()) return set_header(out, std::move(fields), line);
    out.rows.push_back(std::move(fields));
    out.lines.push_back(line);
  });
  rows.feed(text);
  rows.finish();
  require(!out.columns.empty(), "{}: has no header", path);
  return out;
}

}  // namespace

TsvTable parse_tsv(std::string_view text, std::string name, const TsvOptions& options) {
  TsvTable out{.name = std::move(name), .columns = options.columns, .rows = {}};
  require_text(text, out.name);
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::int64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    std::vector<std::string> fields = split(line, '\t');
    if (out.columns.empty()) {
      set_header(out, std::move(fields), number);
      continue;
    }
    if (options.skips_short_rows && fields.size() < out.columns.size()) {
      ++out.skipped;
      continue;
    }
    if (options.skips_short_rows) fields.resize(out.columns.size());
    require(fields.size() == out.columns.size(),
            "{}, line {}: has {} fields, but the header has {}; fields are separated "
            "by tabs",
            out.name, number, fields.size(), out.columns.size());
    out.rows.push_back(std::move(fields));
    out.lines.push_back(number);
  }
  require(!out.columns.empty(), "{}: has no header", out.name);
  return out;
}

TsvTable read_tsv(const std::string& path) { return parse_tsv(read_file(path), path); }

TsvTable read_table(const std::string& path) {
  const TextForm form = text_form(path);
  require(form != TextForm::kJsonLines,
          "{}: JSON Lines are not read as a table; write it with tabs between the columns (.tsv), or as CSV (.csv)",
          path);
  return form == TextForm::kCsv ? read_csv(path) : read_tsv(path);
}

}  // namespace tessera::data
