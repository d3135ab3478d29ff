// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/text_detail.h"

#include <cxxabi.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <numeric>

#include "tessera/base/error.h"

namespace tessera::detail {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
    if (text.empty()) parts.emplace_back();
  }
  return parts;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

namespace {

// Returns the length of the UTF-8 character at the start of `text`, or 0 if there is none or it is a control character.
std::size_t printable_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return (byte(0) >= ' ' && byte(0) != 0x7f) || byte(0) == '\n' || byte(0) == '\t' ? 1 : 0;
  const std::size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : byte(0) >= 0xc2 ? 2 : 0;
  if (length == 0 || length > text.size() || byte(0) > 0xf4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Not the shortest form, a surrogate, or above U+10FFFF.
  const bool is_overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool is_outside = (byte(0) == 0xed && byte(1) >= 0xa0) || (byte(0) == 0xf4 && byte(1) >= 0x90);
  return is_overlong || is_outside ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = printable_length(text);
    out += length == 0 ? "?" : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = static_cast<unsigned char>(text[0]) < 0x80 ? 1 : printable_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string escape_controls(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::size_t length = printable_length(text);
    // U+0080 to U+009F are control characters, too.
    if (text.size() > 1 && text[0] == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0) length = 0;
    if (length == 1 && (text[0] == '\n' || text[0] == '\t')) {
      out += text[0] == '\n' ? "\\n" : "\\t";
    } else if (length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20) {
      out += fmt::format("\\{:03o}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

namespace {

bool is_octal(char c) { return c >= '0' && c <= '7'; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Decodes the escape whose first character after the backslash is body[i]. Afterwards i is the index of its last
// character.
char decode_escape(std::string_view body, std::size_t& i) {
  switch (body[i]) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'x': {
      int value = 0;
      std::size_t digits = 0;
      while (digits < 2 && i + 1 < body.size() && hex_digit(body[i + 1]) >= 0) {
        value = value * 16 + hex_digit(body[++i]);
        ++digits;
      }
      require(digits > 0, "escape \\x in a string needs hexadecimal digits");
      return static_cast<char>(value);
    }
    default: break;
  }
  if (!is_octal(body[i])) return body[i];
  int value = body[i] - '0';
  for (int digits = 1; digits < 3 && i + 1 < body.size() && is_octal(body[i + 1]); ++digits)
    value = value * 8 + (body[++i] - '0');
  return static_cast<char>(value);
}

}  // namespace

std::string unquote(std::string_view text) {
  text = trim(text);
  const bool in_quotes =
      text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
  require(in_quotes, "expected a string in double quotes, got {}", text);
  const std::string_view body = text.substr(1, text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    require(++i < body.size(), "string ends within an escape: {}", text);
    out += decode_escape(body, i);
  }
  return out;
}

std::string class_name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                         std::free);
  const std::string_view text = status == 0 ? demangled.get() : type.name();
  std::string last;
  int depth = 0;
  for (const char c : text) {
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == ')' || c == '}' || c == '>') {
      --depth;
    } else if (depth == 0 && c == ':') {
      last.clear();
    } else if (depth == 0) {
      last += c;
    }
  }
  return last;
}

std::string format_bytes(double bytes) {
  constexpr std::array<std::string_view, 7> kSuffixes = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t i = 0;
  for (; i + 1 < kSuffixes.size() && bytes >= 1024; ++i) bytes /= 1024;
  return fmt::format("{:.2f}{}", bytes, kSuffixes[i]);
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::int64_t kKilo = 1024;
  return bytes < kKilo ? fmt::format("{}B", bytes) : format_bytes(static_cast<double>(bytes));
}

std::size_t hash_bytes(const void* data, std::size_t size) { return XXH3_64bits(data, size); }

std::int64_t product(std::span<const std::int64_t> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace tessera::detail
