// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/text_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

#include "csv_rows.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/random_access.h"
#include "tessera/base/text.h"
#include "token_layout.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kAtOnce = 4 << 20;
constexpr std::size_t kLongestLine = std::size_t{1} << 30;
constexpr std::string_view kStandardInput = "-";

// The suffix in lower case.
std::string suffix_of(const fs::path& path) {
  std::string out = path.extension().string();
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

bool is_jsonl(const fs::path& path) { return suffix_of(path) == ".jsonl"; }

void refuse_table(const std::string& path) {
  require(suffix_of(path) != ".tsv",
          "{}: a table, not a text; write it as CSV (.csv), or its texts as JSON Lines (.jsonl), each as {{\"text\": "
          "\"…\"}}; to read the table as one text, give it the suffix .txt",
          path);
}

struct TextFolder {
  std::vector<TextInput> texts;                // sorted by path
  std::map<std::string, std::int64_t> others;  // by suffix, without hidden files
};

bool is_hidden_in(const std::string& folder, const fs::path& path) {
  const fs::path inner = path.lexically_relative(folder);
  return std::any_of(inner.begin(), inner.end(), [](const fs::path& part) { return part.string().starts_with('.'); });
}

TextFolder list_folder(const std::string& folder) {
  TextFolder out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) continue;
    const std::string suffix = suffix_of(entry.path());
    const bool is_dangling = entry.is_symlink() && !entry.exists();  // a read gives the reason
    if ((entry.is_regular_file() || is_dangling) && (suffix == ".txt" || suffix == ".jsonl"))
      out.texts.push_back({entry.path().string(), suffix == ".jsonl" ? TextForm::kJsonLines : TextForm::kText});
    else if (!is_hidden_in(folder, entry.path()))
      ++out.others[suffix];
  }
  std::sort(out.texts.begin(), out.texts.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return out;
}

// As in `2 .csv, 1 without a suffix`.
std::string suffixes_text(const std::map<std::string, std::int64_t>& counts) {
  constexpr std::size_t kMost = 10;
  std::vector<std::string> parts;
  for (const auto& [suffix, count] : counts) {
    if (parts.size() == kMost) {
      parts.emplace_back("…");
      break;
    }
    parts.push_back(fmt::format("{} {}", count, suffix.empty() ? "without a suffix" : suffix));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<TextInput> texts_in(const std::string& folder) {
  TextFolder found = list_folder(folder);
  require(!found.texts.empty(), "the folder {} has no file *.txt or *.jsonl{}", folder,
          [&] { return found.others.empty() ? "" : "; its files are: " + suffixes_text(found.others); });
  return std::move(found.texts);
}

using TakePart = std::function<void(std::string_view)>;

void read_standard_input(const TakePart& take) {
  std::string part(kAtOnce, '\0');
  bool is_first = true;
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), stdin)) {
    if (is_first) require_text(std::string_view(part).substr(0, size), std::string(kStandardInput));
    is_first = false;
    take(std::string_view(part).substr(0, size));
  }
  require(std::ferror(stdin) == 0, "cannot read standard input");
}

// Calls `take` with the parts of a file, in order, until it returns false.
void read_file_parts(const std::string& path, const std::function<bool(std::string_view)>& take) {
  const InputFile file(path);
  std::string part;
  for (std::uint64_t offset = 0; offset < file.size(); offset += part.size()) {
    part.resize(std::min(kAtOnce, file.size() - offset));
    file.read(offset, std::as_writable_bytes(std::span(part)));
    if (offset == 0) require_text(part, path);
    if (!take(part)) return;
  }
}

// Calls `take` with the parts of a text, in order.
void read_parts(const std::string& path, const TakePart& take) {
  if (path == kStandardInput) return read_standard_input(take);
  read_file_parts(path, [&](std::string_view part) {
    take(part);
    return true;
  });
}

// True if a blank of Unicode may end before byte `i`, which follows a byte that is not ASCII.
bool may_follow_blank(std::string_view text, std::size_t i) {
  const auto before = [&](std::size_t n) { return i < n ? 0U : static_cast<unsigned char>(text[i - n]); };
  const bool is_ideographic_space = before(3) == 0xE3 && before(2) == 0x80 && before(1) == 0x80;
  return before(2) == 0xC2 || before(3) == 0xE1 || before(3) == 0xE2 || is_ideographic_space;
}

// True if byte `i` surely begins a piece of GPT-2's pattern: a blank after another character. No piece contains both.
bool begins_piece(std::string_view text, std::size_t i) {
  if (text[i] != ' ' && text[i] != '\n') return false;
  const auto before = static_cast<unsigned char>(text[i - 1]);
  return before < 0x80 ? before > 0x20 && before < 0x7F : !may_follow_blank(text, i);
}

void read_text(const std::string& path, const TakeText& take) {
  std::string rest;
  read_parts(path, [&](std::string_view part) {
    const std::size_t known = rest.size();  // there is no place to divide before
    rest += part;
    std::size_t end = rest.size() - 1;
    while (end > 0 && end >= known && !begins_piece(rest, end)) --end;
    if (end == 0 || end < known) return;
    take(std::string_view(rest).substr(0, end), false);
    rest.erase(0, end);
  });
  take(rest, true);
}

JsonObject object_of_line(std::string_view line, const std::string& path, std::int64_t number) {
  try {
    return JsonObject::parse_line(line, fmt::format("{}, line {}", path, number));
  } catch (Error& error) {
    if (is_jsonl(path)) throw;
    throw error.note("  a .json file must have one object on each line, as a .jsonl file");
  }
}

// For an error about a column.
std::string columns_advice(const std::vector<std::string>& columns) {
  constexpr std::size_t kMost = 20;
  const std::span<const std::string> shown(columns.data(), std::min(kMost, columns.size()));
  return fmt::format(
      "the columns are {}{}; --text_column_name (of tessera tokenize: --text-column) names that of the text",
      fmt::join(shown, ", "), columns.size() > kMost ? ", …" : "");
}

void read_line(std::string_view line, const std::string& path, std::int64_t number, const std::string& column,
               const TakeText& take) {
  if (trim(line).empty()) return;
  const JsonObject object = object_of_line(line, path, number);
  std::string text;
  require(object.has(column), "{}: has no column \"{}\"; {}", object.origin(), column,
          [&] { return columns_advice(object.keys()); });
  try {
    object.read(column, text);
  } catch (Error& error) {
    throw error.note("  " + columns_advice(object.keys()));
  }
  take(text, true);
}

void read_json_lines(const std::string& path, const std::string& column, const TakeText& take) {
  std::string rest;
  std::int64_t line = 0;
  read_parts(path, [&](std::string_view part) {
    std::size_t start = 0;
    for (std::size_t end = part.find('\n'); end != std::string_view::npos; end = part.find('\n', start)) {
      rest += part.substr(start, end - start);
      read_line(rest, path, ++line, column, take);
      rest.clear();
      start = end + 1;
    }
    rest += part.substr(start);
    require(rest.size() <= kLongestLine, "{}, line {}: is longer than {} bytes", path, line + 1, kLongestLine);
  });
  read_line(rest, path, line + 1, column, take);
}

// The keys of the first line that is not blank.
std::vector<std::string> keys_of_first_line(const std::string& path) {
  std::string line;
  std::int64_t number = 1;
  read_file_parts(path, [&](std::string_view part) {
    line += part;
    const std::size_t begin = std::min(line.find_first_not_of(" \t\r\n"), line.size());
    number += std::count(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(begin), '\n');
    line.erase(0, begin);
    return line.find('\n') == std::string::npos;
  });
  line.resize(std::min(line.find('\n'), line.size()));
  return line.empty() ? std::vector<std::string>() : object_of_line(line, path, number).keys();
}

std::vector<std::string> header_of(const std::string& path) {
  std::vector<std::string> out;
  CsvRows rows(path, [&](std::vector<std::string>& fields, std::int64_t /*line*/) {
    if (out.empty()) out = std::move(fields);
  });
  read_file_parts(path, [&](std::string_view part) {
    rows.feed(part);
    return out.empty();
  });
  if (out.empty()) rows.finish();
  return out;
}

// The column of this name in a header.
std::size_t column_in(const std::vector<std::string>& header, const std::string& column, const std::string& path) {
  const auto found = std::find(header.begin(), header.end(), column);
  require(found != header.end(), "{}: has no column \"{}\"; {}", path, column, [&] { return columns_advice(header); });
  require(std::find(found + 1, header.end(), column) == header.end(), "{}: has two columns \"{}\"", path, column);
  return static_cast<std::size_t>(found - header.begin());
}

void read_csv_column(const std::string& path, const std::string& column, const TakeText& take) {
  std::optional<std::size_t> place;
  CsvRows rows(path, [&](std::vector<std::string>& fields, std::int64_t /*line*/) {
    if (place)
      take(fields[*place], true);
    else
      place = column_in(fields, column, path);
  });
  read_parts(path, [&](std::string_view part) { rows.feed(part); });
  rows.finish();
}

}  // namespace

TextForm text_form(const std::string& path) {
  const std::string suffix = suffix_of(path);
  if (suffix == ".jsonl" || suffix == ".json") return TextForm::kJsonLines;
  return suffix == ".csv" ? TextForm::kCsv : TextForm::kText;
}

std::vector<TextInput> find_texts(const std::vector<std::string>& paths) {
  std::vector<TextInput> out;
  for (const std::string& path : paths) {
    if (fs::is_directory(path)) {
      const auto found = texts_in(path);
      out.insert(out.end(), found.begin(), found.end());
      continue;
    }
    if (path != kStandardInput) check_readable(path);
    refuse_table(path);
    out.push_back({path, text_form(path)});
  }
  return out;
}

std::string skipped_files_text(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return "";
  const TextFolder found = list_folder(path);
  std::int64_t count = 0;
  for (const auto& [suffix, more] : found.others) count += more;
  if (count == 0) return "";
  return fmt::format(
      "{} of the {} files in the folder {} {} not read: {}; a folder stands for its files *.txt and *.jsonl", count,
      count + isize(found.texts), path, count == 1 ? "is" : "are", suffixes_text(found.others));
}

std::vector<std::string> columns_of(const TextInput& input) {
  if (input.form == TextForm::kText) return {};
  return input.form == TextForm::kCsv ? header_of(input.path) : keys_of_first_line(input.path);
}

std::string default_text_column(const std::vector<TextInput>& inputs) {
  std::string standard = "text";
  for (const TextInput& input : inputs) {
    const std::vector<std::string> columns = columns_of(input);
    if (columns.empty()) continue;
    return std::find(columns.begin(), columns.end(), standard) != columns.end() ? standard : columns.front();
  }
  return standard;
}

void read_documents(const TextInput& input, const std::string& column, const TakeText& take) {
  switch (input.form) {
    case TextForm::kText: return read_text(input.path, take);
    case TextForm::kJsonLines: return read_json_lines(input.path, column, take);
    case TextForm::kCsv: return read_csv_column(input.path, column, take);
  }
}

std::vector<std::string> read_all_documents(const std::vector<TextInput>& inputs, const std::string& column) {
  std::vector<std::string> out;
  std::string document;
  for (const TextInput& input : inputs)
    read_documents(input, column, [&](std::string_view text, bool ends_document) {
      document += text;
      if (!ends_document) return;
      if (!document.empty()) out.push_back(std::move(document));
      document.clear();
    });
  return out;
}

namespace {

// What a file is that begins with some bytes, and how it becomes a text. {} is its path.
struct OtherForm {
  std::string_view start;
  const char* what;
  const char* advice;
};
constexpr OtherForm kOtherForms[] = {
    {{kTokenMagic.data(), kTokenMagic.size()},
     "a token file",
     "give the text from which it was made; only run_clm reads token files"},
    {"\x1f\x8b", "compressed by gzip", "`gunzip FILE` makes a text of it"},
    {"PK\x03\x04", "a zip archive", "`unzip FILE` extracts its texts"},
    {"\x28\xb5\x2f\xfd", "compressed by zstd", "`zstd -d FILE` makes a text of it"},
    {"\xfd"
     "7zXZ",
     "compressed by xz", "`xz -d FILE` makes a text of it"},
    {"PAR1", "a Parquet file", "write its texts as JSON Lines (.jsonl), each as {\"text\": \"…\"}"},
    {"ARROW1", "an Arrow file", "write its texts as JSON Lines (.jsonl), each as {\"text\": \"…\"}"},
};

constexpr std::size_t kExamined = 8192;

// Texts in Latin letters have a zero in nearly every second byte of UTF-16, always in the same half of a character.
bool has_zeros_of_utf16(std::string_view start) {
  std::size_t counts[2] = {0, 0};  // at even and at odd places
  start = start.substr(0, kExamined);
  for (std::size_t i = 0; i < start.size(); ++i)
    if (start[i] == '\0') ++counts[i % 2];
  constexpr std::size_t kLeast = 4;
  const std::size_t most = std::max(counts[0], counts[1]);
  return std::min(counts[0], counts[1]) == 0 && most >= kLeast && 5 * most >= 2 * start.size();
}

// "" unless the bytes are in UTF-16 or UTF-32.
std::string_view wide_encoding_of(std::string_view start) {
  using namespace std::string_view_literals;
  if (start.starts_with("\xff\xfe\0\0"sv) || start.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff")) return "UTF-16";
  if (!has_zeros_of_utf16(start)) return "";
  return start.find('\0') % 2 == 0 ? "UTF-16BE" : "UTF-16LE";
}

}  // namespace

void require_text(std::string_view start, const std::string& path) {
  for (const OtherForm& form : kOtherForms)
    require(!start.starts_with(form.start), "{}: is {}, not a text; {}",
            path == kStandardInput ? "standard input" : path, form.what, form.advice);
  const std::string_view encoding = wide_encoding_of(start);
  require(encoding.empty(),
          "{}: is encoded in {}; texts must be in UTF-8: `iconv -f {} -t UTF-8 FILE > NEW` converts it",
          path == kStandardInput ? "standard input" : path, encoding, encoding);
  const std::size_t zero = start.substr(0, kExamined).find('\0');
  require(zero == std::string_view::npos || path == kStandardInput || suffix_of(path) == ".txt",
          "{}: is binary (byte {} is 0), not a text; give a text in UTF-8, JSON Lines (.jsonl) or CSV (.csv); to read "
          "it as a text, give it the suffix .txt",
          path, zero);
}

std::string read_text_file(const std::string& path) {
  refuse_table(path);
  std::string out = read_file(path);
  require_text(out, path);
  return out;
}

}  // namespace tessera::data
