// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <limits>
#include <span>

#include "tessera/base/error.h"
#include "tessera/base/json.h"
#include "tessera/base/random_access.h"
#include "tessera/base/text.h"
#include "tessera/data/text_files.h"

namespace tessera::data {
namespace {

using Json = boost::json::value;
constexpr std::uint64_t kLongestJsonLine = std::uint64_t{1} << 30;

const Json& member(const Json& object, const std::string& key, const std::string& place) {
  const Json* found = find_member(object, key);
  std::vector<std::string> known;
  if (found == nullptr)
    for (const auto& entry : object.get_object()) known.emplace_back(entry.key());
  require(found != nullptr, "{}: has no key \"{}\"{}", place, key, [&] { return suggest_name(key, known); });
  return *found;
}

bool is_index(const Json& value) {
  constexpr auto kLeast = std::int64_t{std::numeric_limits<std::int32_t>::min()};
  constexpr auto kMost = std::int64_t{std::numeric_limits<std::int32_t>::max()};
  return value.is_int64() && value.get_int64() >= kLeast && value.get_int64() <= kMost;
}

double number_of(const Json& value, const std::string& place) {
  require(value.is_number(), "{}: expected a number, got {}", place, [&] { return excerpt(value); });
  return value.to_number<double>();
}

// Returns a number as a scalar and a list of numbers as one dim.
Literal array_of(const Json& value, const std::string& place) {
  const std::span<const Json> list =
      value.is_array() ? std::span(value.get_array().data(), value.get_array().size()) : std::span(&value, 1);
  const Dims dims = value.is_array() ? Dims{static_cast<std::int64_t>(list.size())} : Dims{};
  if (std::all_of(list.begin(), list.end(), is_index)) {
    std::vector<std::int32_t> values;
    for (const Json& one : list) values.push_back(static_cast<std::int32_t>(one.get_int64()));
    return Literal::from(dims, values);
  }
  std::vector<float> values;
  for (const Json& one : list) values.push_back(static_cast<float>(number_of(one, place)));
  return Literal::from(dims, values);
}

Literal tokens_of(const Json& value, const std::string& place, const JsonLinesOptions& options) {
  require(value.is_string(), "{}: \"{}\" must be a text, got {}", place, options.text_column,
          [&] { return excerpt(value); });
  std::vector<std::int32_t> ids = options.tokenizer->encode_document(std::string_view(value.get_string()));
  if (options.end_of_text && options.tokenizer->end_of_text()) ids.push_back(*options.tokenizer->end_of_text());
  return Literal::from<std::int32_t>({static_cast<std::int64_t>(ids.size())}, ids);
}

}  // namespace

Arrays parse_json_line(std::string_view line, const std::string& place, const JsonLinesOptions& options) {
  const Json object = parse_line_of_json(line, place);
  require(object.is_object(), "{}: expected an object, got {}", place, [&] { return excerpt(object); });
  Arrays out;
  if (options.tokenizer) out.set("input_ids", tokens_of(member(object, options.text_column, place), place, options));
  for (const std::string& column : options.columns)
    out.set(column, array_of(member(object, column, place), fmt::format("{}, key \"{}\"", place, column)));
  return out;
}

JsonLines::JsonLines(const std::vector<std::string>& paths, JsonLinesOptions options) : options_(std::move(options)) {
  require(options_.tokenizer || !options_.columns.empty(), "a JSON Lines source needs a tokenizer or columns");
  for (const TextInput& input : find_texts(paths)) {
    if (input.form != TextForm::kJsonLines) continue;
    paths_.push_back(input.path);
    find_lines(isize(paths_) - 1);
  }
  const bool is_one_file = paths.size() == 1 && paths == paths_;
  require(!lines_.empty(), "{}{}", is_one_file ? "no lines in " : "no lines in *.jsonl files in ",
          [&] { return fmt::format("{}", fmt::join(paths, ", ")); });
}

void JsonLines::find_lines(std::int64_t file) {
  constexpr std::uint64_t kAtOnce = 1 << 20;
  const InputFile input(at(paths_, file));
  Line line{.file = file, .number = 1, .start = 0, .size = 0};
  bool is_blank = true;
  const auto end = [&](std::uint64_t next) {
    line.size = next - line.start;
    require(line.size <= kLongestJsonLine, "{}, line {}: is longer than {} bytes", input.path(), line.number,
            kLongestJsonLine);
    if (!is_blank) lines_.push_back(line);
    line = {.file = file, .number = line.number + 1, .start = next + 1, .size = 0};
    is_blank = true;
  };
  std::string part;
  for (std::uint64_t offset = 0; offset < input.size(); offset += part.size()) {
    part.resize(std::min(kAtOnce, input.size() - offset));
    input.read(offset, std::as_writable_bytes(std::span(part)));
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (part[i] == '\n')
        end(offset + i);
      else if (part[i] != ' ' && part[i] != '\t' && part[i] != '\r')
        is_blank = false;
    }
  }
  end(input.size());
}

Arrays JsonLines::get(std::int64_t i) const {
  const Line& line = at(lines_, i);
  const InputFile input(at(paths_, line.file));
  std::string text(line.size, '\0');
  input.read(line.start, std::as_writable_bytes(std::span(text)));
  return parse_json_line(text, fmt::format("{}, line {}", input.path(), line.number), options_);
}

}  // namespace tessera::data
