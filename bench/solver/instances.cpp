// SPDX-License-Identifier: Apache-2.0
#include "instances.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::bench {
namespace {

std::string trimmed(std::string text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\r'; };
  while (!text.empty() && is_blank(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), is_blank));
  return text;
}

// The cells of a row of a table: `| a | b |`.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  if (!line.starts_with('|')) return out;
  for (const std::string& cell : split(line, '|')) out.push_back(trimmed(cell));
  if (out.size() >= 2) out = {out.begin() + 1, out.end() - 1};
  return out;
}

std::optional<std::int64_t> parse_integer(const std::string& text) {
  std::int64_t out = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::optional<std::int64_t> cell_of(const std::vector<std::string>& heading, const std::vector<std::string>& row,
                                    std::string_view column) {
  for (std::size_t i = 0; i < heading.size() && i < row.size(); ++i)
    if (heading[i].starts_with(column)) return parse_integer(row[i]);
  return std::nullopt;
}

}  // namespace

std::vector<InstanceFile> list_instances(const std::string& folder) {
  require(std::filesystem::is_directory(folder), "{}: there is no such folder", folder);
  std::vector<InstanceFile> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    for (const std::string_view end : {".json", ".json.gz"})
      if (file.ends_with(end)) out.push_back({file.substr(0, file.size() - end.size()), entry.path().string()});
  }
  std::sort(out.begin(), out.end(), [](const auto& x, const auto& y) { return x.path < y.path; });
  require(!out.empty(), "{}: there is no file NAME.json or NAME.json.gz", folder);
  return out;
}

std::map<std::string, Known> known_costs(const std::string& folder) {
  std::map<std::string, Known> out;
  std::ifstream in(folder + "/README.md");
  std::vector<std::string> heading;
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> row = cells(line);
    if (row.empty()) continue;
    if (row[0] == "file") heading = row;
    if (heading.empty() || row[0] == "file") continue;
    Known known;
    known.best = cell_of(heading, row, "best");
    known.xla = cell_of(heading, row, "XLA");
    // `seconds` begins like `second`
    for (std::size_t i = 0; i < heading.size() && i < row.size(); ++i) {
      if (heading[i] == "second") known.second = parse_integer(row[i]);
      if (heading[i] == "seconds" && parse_integer(row[i])) known.seconds = static_cast<double>(*parse_integer(row[i]));
    }
    out[row[0]] = known;
  }
  return out;
}

std::string read_text(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  require(file != nullptr, "{}: cannot be opened", path);
  std::string out;
  std::vector<char> chunk(1 << 20);
  int count = 0;
  while ((count = gzread(file.get(), chunk.data(), static_cast<unsigned>(chunk.size()))) > 0)
    out.append(chunk.data(), static_cast<std::size_t>(count));
  int code = Z_OK;
  const char* message = gzerror(file.get(), &code);
  require(count == 0 && code == Z_OK, "{}: gzip data is damaged or truncated: {}", path, message);
  return out;
}

}  // namespace tessera::bench
