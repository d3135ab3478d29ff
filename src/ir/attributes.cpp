// SPDX-License-Identifier: Apache-2.0
#include "tessera/ir/attributes.h"
#include "tessera/base/text.h"

#include <fmt/format.h>

#include <charconv>

namespace tessera {
namespace {

// The text between the outermost braces. Throws an Error if there are none.
std::string_view inside_braces(std::string_view text) {
  text = trim(text);
  require(text.size() >= 2 && text.front() == '{' && text.back() == '}', "expected a list in braces, got {}", text);
  return trim(text.substr(1, text.size() - 2));
}

template <class T>
T parse_number(std::string_view text) {
  text = trim(text);
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(code == std::errc() && end == text.data() + text.size(), "expected {}, got \"{}\"",
          std::is_integral_v<T> ? "an integer" : "a number", text);
  return value;
}

}  // namespace

const std::string* AttributeReader::take(std::string_view name) {
  taken_.resize(all_.size(), false);
  if (!all_.empty()) asked_.emplace_back(name);
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (taken_[i] || all_[i].name != name) continue;
    taken_[i] = true;
    return &all_[i].text;
  }
  return nullptr;
}

std::vector<TextAttribute> AttributeReader::rest() const {
  std::vector<TextAttribute> out;
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (i >= taken_.size() || !taken_[i]) out.push_back(all_[i]);
  return out;
}

std::string field_text(std::int64_t value) { return std::to_string(value); }
std::string field_text(bool value) { return value ? "true" : "false"; }
std::size_t field_hash(const Dims& value) { return hash_bytes(value.data(), value.size() * sizeof(value[0])); }
std::size_t field_hash(const Literal& value) { return value.hash(); }
std::string field_text(double value) { return fmt::format("{}", value); }
std::string field_text(const Dims& value) { return fmt::format("{{{}}}", fmt::join(value, ",")); }
std::string field_text(const std::string& value) { return quote(value); }
std::string field_text(const Literal& value) { return value.type().str() + " " + value.str(); }
std::string field_text(const std::vector<bool>& value) {
  std::vector<std::string> words;
  for (const bool b : value) words.emplace_back(b ? "true" : "false");
  return fmt::format("{{{}}}", fmt::join(words, ","));
}

void parse_field(std::string_view text, std::int64_t& value) { value = parse_number<std::int64_t>(text); }
void parse_field(std::string_view text, int& value) { value = parse_number<int>(text); }
void parse_field(std::string_view text, double& value) { value = parse_number<double>(text); }
void parse_field(std::string_view text, bool& value) {
  text = trim(text);
  require(text == "true" || text == "false" || text == "1" || text == "0", "expected true or false, got \"{}\"", text);
  value = text == "true" || text == "1";
}
void parse_field(std::string_view text, Dims& value) {
  value.clear();
  for (const auto& item : split(inside_braces(text), ',')) value.push_back(parse_number<std::int64_t>(item));
}
void parse_field(std::string_view text, std::string& value) { value = unquote(text); }
void parse_field(std::string_view text, std::vector<bool>& value) {
  value.clear();
  for (const auto& item : split(inside_braces(text), ',')) {
    bool one = false;
    parse_field(item, one);
    value.push_back(one);
  }
}

bool equal(const Attributes& a, const Attributes& b) {
  if (a == b) return true;
  return a && b && a->equals(*b);
}

}  // namespace tessera
