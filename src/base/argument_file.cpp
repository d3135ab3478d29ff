// SPDX-License-Identifier: Apache-2.0
// Files with flags: {"max_steps": 5, …}, and the flags after them.
#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/base/argument_parser.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr std::string_view kProgram = "program";  // the key of a file that names the program

template <class T>
void set_value(JsonObject& json, const std::string& key, const T& value) {
  json.set(key, value);
}
template <class T>
void set_value(JsonObject& json, const std::string& key, const std::optional<T>& value) {
  value ? json.set(key, *value) : json.set_null(key);
}

}  // namespace

// ---- reading and writing --------------------------------------------------------------------------------------------------

bool ArgumentParser::is_file(std::string_view argument) {
  return argument.ends_with(".json") && !argument.starts_with("--") &&
         argument.find('=') == std::string_view::npos;  // config=c.json is an override
}

void ArgumentParser::read_value(const JsonObject& json, const std::string& key) {
  Row& row = *find(key);
  row.was_given = row.is_of_file = true;
  row.given_name = key;
  if (auto* text = std::get_if<std::string*>(&row.target); text != nullptr && row.bare && json.is_bool(key)) {
    bool is_given = false;
    json.read(key, is_given);
    **text = is_given ? *row.bare : "";  // as the flag without a value, and as no flag
    return;
  }
  auto* const target = std::get_if<std::string*>(&row.target);
  if (target != nullptr && json.is_object(key)) {
    **target = json.text(key);
    return;
  }
  if (row.takes_words) {
    std::vector<std::string> words;
    json.read(key, words);
    **std::get_if<std::string*>(&row.target) = fmt::format("{}", fmt::join(words, " "));
    return;
  }
  std::visit([&](auto* target) { json.read(key, *target); }, row.target);
  if (std::holds_alternative<std::string*>(row.target)) assign(row, value_text(row.target), key);  // checks the choices
  row.is_of_file = true;
}

JsonObject ArgumentParser::open_file(const std::string& path) const {
  JsonObject json = JsonObject::from_file(path);
  const std::string writer = json.text(kProgram);
  require(writer.empty() || program_.empty() || writer == program_, "{}: has arguments of {}, but this program is {}",
          path, writer, program_);
  return json;
}

std::vector<std::string> ArgumentParser::known_keys() const {
  std::vector<std::string> known = {std::string(kProgram)};
  for (const auto& row : rows_) known.push_back(row.name);
  for (const auto& [name, of] : aliases_) known.push_back(name);
  for (const Foreign& flag : foreign_) known.push_back(flag.name);
  return known;
}

void ArgumentParser::read_file(const JsonObject& json) {
  std::vector<NamedValue> given;
  for (const auto& key : json.keys())
    if (key != kProgram && !json.is_null(key) && find_foreign(key) == nullptr) given.emplace_back(key, json.text(key));
  read_option(json.origin(), [&] { require_one_value(given); });
  for (const auto& one : given) read_value(json, one.first);
}

JsonObject ArgumentParser::json() const {
  JsonObject out(program_);
  if (!program_.empty()) out.set(kProgram, program_);
  for (const Row& row : rows_) std::visit([&](const auto* value) { set_value(out, row.name, *value); }, row.target);
  return out;
}

// ---- flags that exclude each other ----------------------------------------------------------------------------------------

ArgumentParser& ArgumentParser::exclude(std::string_view one, std::string_view other) {
  const auto exclusive = [](std::string_view text) {
    const std::size_t equals = std::min(text.find('='), text.size());
    return Exclusive{std::string(text.substr(0, equals)), std::string(text.substr(std::min(equals + 1, text.size())))};
  };
  const Exclusive a = exclusive(one);
  const Exclusive b = exclusive(other);
  if (find(a.name) == nullptr || find(b.name) == nullptr) return *this;
  exclusions_.emplace_back(a, b);
  exclusions_.emplace_back(b, a);
  return *this;
}

void ArgumentParser::reset(Row& row) {
  std::visit([](auto* target) { *target = {}; }, row.target);
  if (value_text(row.target) != row.standard) assign(row, row.standard, row.name);
  row.was_given = false;
  row.given_name.clear();
}

void ArgumentParser::reset_excluded(const std::vector<NamedValue>& given) {
  for (const auto& [name, value] : given)
    for (const auto& [one, other] : exclusions_) {
      if (one.name != find(name)->name || !one.has(value)) continue;
      Row* const excluded = find(other.name);
      const bool is_given =
          std::any_of(given.begin(), given.end(), [&](const NamedValue& more) { return find(more.first) == excluded; });
      if (!is_given && other.has(value_text(excluded->target))) reset(*excluded);
    }
}

}  // namespace tessera
