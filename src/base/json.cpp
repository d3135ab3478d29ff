// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/json.h"

#include <algorithm>
#include <atomic>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

namespace json = boost::json;

constexpr std::size_t kEscapeSize = 6;  // of `\uXXXX`

// The words of Python's writer for numbers that JSON does not have.
struct Word {
  std::string_view text;
  std::string_view number;  // as long, and JSON
  double value;
};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Word kWords[] = {{"NaN", "0.0", std::numeric_limits<double>::quiet_NaN()},
                           {"Infinity", "0.000000", kInfinity},
                           {"-Infinity", "-0.000000", -kInfinity}};

/// A text in which numbers of the same length replace the words, and their values by offset.
struct WithoutWords {
  explicit WithoutWords(std::string_view given) {
    if (given.find("NaN") == std::string_view::npos && given.find("Infinity") == std::string_view::npos) return;
    text = given;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '"') in_string = !in_string;
      if (in_string && text[i] == '\\') ++i;
      if (!in_string) replace_at(i);
    }
  }
  // Whether no part of a number or a name is there.
  [[nodiscard]] bool is_limit(std::size_t i) const {
    return i >= text.size() || std::string_view(" \t\r\n,:[]{}").find(text[i]) != std::string_view::npos;
  }
  void replace_at(std::size_t& i) {
    for (const Word& word : kWords)
      if (text.compare(i, word.text.size(), word.text) == 0 && is_limit(i - 1) && is_limit(i + word.text.size())) {
        text.replace(i, word.text.size(), word.number);
        values[i] = word.value;
        i += word.text.size() - 1;
        return;
      }
  }
  std::string text;  // empty if there are no words
  std::unordered_map<std::size_t, double> values;
};

// The number of the escape `\uXXXX` at byte `i`; nullopt if there is none.
std::optional<unsigned> escaped_unit(std::string_view text, std::size_t i) {
  const std::string_view escape = text.substr(std::min(i, text.size()), kEscapeSize);
  if (escape.size() < kEscapeSize || !escape.starts_with("\\u")) return std::nullopt;
  unsigned out = 0;
  const char* end = escape.data() + escape.size();
  const auto [last, code] = std::from_chars(escape.data() + 2, end, out, 16);
  return code == std::errc() && last == end ? std::optional(out) : std::nullopt;
}

bool is_high_surrogate(unsigned unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low_surrogate(unsigned unit) { return unit >= 0xDC00 && unit < 0xE000; }

// Replaces escapes of surrogates that are not in pairs, such as `ab\ud800`, by that of U+FFFD, which is as long. Boost.JSON
// refuses them. Returns "" if there are none.
std::string without_lone_surrogates(std::string_view text) {
  std::string out;
  for (std::size_t i = text.find('\\'); i < text.size(); i = text.find('\\', i)) {
    const auto unit = escaped_unit(text, i);
    if (!unit) {
      i += 2;  // another escape, such as that of a backslash
      continue;
    }
    const bool is_pair = is_high_surrogate(*unit) && is_low_surrogate(escaped_unit(text, i + kEscapeSize).value_or(0));
    if (!is_pair && (is_high_surrogate(*unit) || is_low_surrogate(*unit))) {
      if (out.empty()) out = text;
      out.replace(i, kEscapeSize, "\\ufffd");
    }
    i += is_pair ? 2 * kEscapeSize : kEscapeSize;
  }
  return out;
}

// Whether this rank has been warned of a lone surrogate.
struct SurrogateWarning {
  std::atomic<bool> is_printed = false;
};

enum class Keys { kMayRepeat, kUnique };  // in one object

/// Builds a value from the parser's events. Its differences from json::parser are in on_double.
struct ExactDoubles {
  using Code = json::error_code;
  static constexpr std::size_t max_object_size = json::object::max_size();
  static constexpr std::size_t max_array_size = json::array::max_size();
  static constexpr std::size_t max_key_size = json::string::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size();

  bool on_document_begin(Code&) {
    stack.reset();
    return true;
  }
  static bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) {
    if (has_unique_keys) keys.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t n, Code&) {
    if (has_unique_keys) keys.pop_back();
    return stack.push_object(n), true;
  }
  static bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t n, Code&) { return stack.push_array(n), true; }
  bool on_key_part(json::string_view s, std::size_t, Code&) {
    if (has_unique_keys) key += s;
    return stack.push_chars(s), true;
  }
  bool on_key(json::string_view s, std::size_t, Code& code) {
    stack.push_key(s);
    if (!has_unique_keys) return true;
    key += s;
    if (!keys.back().insert(key).second) {
      repeated = key;
      code = json::error::syntax;
      return false;
    }
    key.clear();
    return true;
  }
  bool on_string_part(json::string_view s, std::size_t, Code&) { return stack.push_chars(s), true; }
  bool on_string(json::string_view s, std::size_t, Code&) { return stack.push_string(s), true; }
  static bool on_number_part(json::string_view, Code&) { return true; }
  bool on_int64(std::int64_t i, json::string_view, Code&) { return stack.push_int64(i), true; }
  bool on_uint64(std::uint64_t u, json::string_view, Code&) { return stack.push_uint64(u), true; }
  bool on_double(double approximate, json::string_view s, Code&) {
    double exact = approximate;
    std::from_chars(s.data(), s.data() + s.size(), exact);  // does not change `exact` on overflow
    if (!words.empty())
      if (const auto word = words.find(static_cast<std::size_t>(s.data() - begin)); word != words.end())
        exact = word->second;
    return stack.push_double(exact), true;
  }
  bool on_bool(bool b, Code&) { return stack.push_bool(b), true; }
  bool on_null(Code&) { return stack.push_null(), true; }
  static bool on_comment_part(json::string_view, Code&) { return true; }
  static bool on_comment(json::string_view, Code&) { return true; }

  json::value_stack stack;
  const char* begin = nullptr;  // of the text
  std::unordered_map<std::size_t, double> words;
  bool has_unique_keys = false;
  std::vector<std::unordered_set<std::string>> keys;  // of the objects around the current position
  std::string key;                                    // the parts of the current key that were read
  std::optional<std::string> repeated;
};

enum class Places { kLineAndColumn, kColumn };  // in errors

// Returns "line 3, column 7", or "column 7", for a byte offset.
std::string position(std::string_view text, std::size_t offset, Places places) {
  const std::string_view before = text.substr(0, offset);
  const auto line_start = before.rfind('\n');
  const std::size_t column = line_start == std::string_view::npos ? offset + 1 : offset - line_start;
  if (places == Places::kColumn) return fmt::format("column {}", column);
  return fmt::format("line {}, column {}", std::count(before.begin(), before.end(), '\n') + 1, column);
}

// The reason of an error at byte `at`. Boost.JSON calls a byte that is not UTF-8 a syntax error.
std::string reason_of(const json::error_code& code, std::string_view text, std::size_t at) {
  const bool is_ascii = at >= text.size() || static_cast<unsigned char>(text[at]) < 0x80;
  return is_ascii || code != json::error::syntax || is_utf8(text) ? code.message() : "the text is not UTF-8";
}

json::value parse_text(std::string_view given, std::string_view origin, Keys keys,
                       Places places = Places::kLineAndColumn) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // some editors write it
  if (given.starts_with(kByteOrderMark)) given.remove_prefix(kByteOrderMark.size());
  WithoutWords replaced(given);
  const std::string_view text = replaced.text.empty() ? given : std::string_view(replaced.text);
  json::parse_options options;
  options.max_depth = 200;
  json::basic_parser<ExactDoubles> parser(options);
  parser.handler().begin = text.data();
  parser.handler().words = std::move(replaced.values);
  parser.handler().has_unique_keys = keys == Keys::kUnique;
  json::error_code code;
  std::size_t read = parser.write_some(/*more=*/false, text.data(), text.size(), code);
  if (!code && read < text.size()) {
    read = std::min(text.find_first_not_of(" \t\r\n", read), text.size());
    if (read < text.size()) code = json::error::extra_data;
  }
  if (const auto& key = parser.handler().repeated)
    fail("{}: the key {} occurs twice in an object", origin, quote(*key));
  if (code)
    fail("{}: not JSON at {}: {}", origin, position(text, std::min(read, text.size()), places),
         reason_of(code, text, read));
  return parser.handler().stack.release();
}

}  // namespace

json::value parse_json(std::string_view text, std::string_view origin) {
  return parse_text(text, origin, Keys::kMayRepeat);
}

json::value parse_line_of_json(std::string_view line, std::string_view place) {
  const std::string replaced = without_lone_surrogates(line);
  if (replaced.empty()) return parse_text(line, place, Keys::kMayRepeat, Places::kColumn);
  json::value out = parse_text(replaced, place, Keys::kMayRepeat, Places::kColumn);
  if (!RankContext::current().get<SurrogateWarning>().is_printed.exchange(true))
    log_shared_warning(
        "{}: has half of a surrogate pair, such as \\ud800, which is no character; it is read as U+FFFD, here and in "
        "other lines",
        place);
  return out;
}

json::value parse_json_with_unique_keys(std::string_view text, std::string_view origin) {
  return parse_text(text, origin, Keys::kUnique);
}

const json::value* find_member(const json::value& object, std::string_view key) {
  const json::object* members = object.if_object();
  return members == nullptr ? nullptr : members->if_contains(key);
}

std::string json_quoted(std::string_view text) { return json::serialize(json::string(printable(text))); }

std::string excerpt(const json::value& value) {
  std::string text = json::serialize(value);
  if (value.is_double()) {  // Boost writes 0.5 as 5E-1
    text = fmt::format("{}", value.get_double());
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
  }
  return text.size() > 40 ? fmt::format("{} ...", text.substr(0, 40)) : text;
}

}  // namespace tessera
