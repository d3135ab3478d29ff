// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/text_files.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/random_access.h"
#include "tessera/base/text.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kAtOnce = 4 << 20;
constexpr std::size_t kLongestLine = std::size_t{1} << 30;

bool is_jsonl(const fs::path& path) { return path.extension() == ".jsonl"; }

std::vector<TextInput> texts_in(const std::string& folder) {
  std::vector<TextInput> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool is_text = entry.path().extension() == ".txt" || is_jsonl(entry.path());
    if (is_text && entry.is_regular_file()) out.push_back({entry.path().string(), is_jsonl(entry.path())});
  }
  require(!out.empty(), "the folder {} has no file *.txt or *.jsonl", folder);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return out;
}

// Calls `take` with the parts of a file, in order.
void read_parts(const std::string& path, const std::function<void(std::string_view)>& take) {
  const InputFile file(path);
  std::string part;
  for (std::uint64_t offset = 0; offset < file.size(); offset += part.size()) {
    part.resize(std::min(kAtOnce, file.size() - offset));
    file.read(offset, std::as_writable_bytes(std::span(part)));
    take(part);
  }
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

void read_line(std::string_view line, const std::string& place, const std::string& column, const TakeText& take) {
  if (trim(line).empty()) return;
  const JsonObject object = JsonObject::parse(line, place);
  std::string text;
  require(object.read(column, text), "{}: has no key \"{}\"{}", place, column,
          [&] { return suggest_name(column, object.keys()); });
  take(text, true);
}

void read_jsonl(const std::string& path, const std::string& column, const TakeText& take) {
  std::string rest;
  std::int64_t line = 0;
  const auto place = [&] { return fmt::format("{}, line {}", path, line); };
  read_parts(path, [&](std::string_view part) {
    std::size_t start = 0;
    for (std::size_t end = part.find('\n'); end != std::string_view::npos; end = part.find('\n', start)) {
      rest += part.substr(start, end - start);
      ++line;
      read_line(rest, place(), column, take);
      rest.clear();
      start = end + 1;
    }
    rest += part.substr(start);
    require(rest.size() <= kLongestLine, "{}, line {}: is longer than {} bytes", path, line + 1, kLongestLine);
  });
  ++line;
  read_line(rest, place(), column, take);
}

}  // namespace

std::vector<TextInput> find_texts(const std::vector<std::string>& paths) {
  std::vector<TextInput> out;
  for (const std::string& path : paths) {
    if (fs::is_directory(path)) {
      const auto found = texts_in(path);
      out.insert(out.end(), found.begin(), found.end());
      continue;
    }
    check_readable(path);
    out.push_back({path, is_jsonl(path)});
  }
  return out;
}

void read_documents(const TextInput& input, const std::string& column, const TakeText& take) {
  if (input.is_jsonl) return read_jsonl(input.path, column, take);
  read_text(input.path, take);
}

}  // namespace tessera::data
