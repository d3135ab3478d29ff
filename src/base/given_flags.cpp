// SPDX-License-Identifier: Apache-2.0
// The flags that a command line and its file give: unknown ones, those of other programs, and two names of one flag.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "tessera/base/argument_parser.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

// Python writes True, False and None.
std::string plain_value(const std::string& text) {
  if (text == "True") return "true";
  if (text == "False") return "false";
  return text == "None" || text == "none" || text == "null" ? "" : text;
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

bool is_same_value(const std::string& given, const std::string& standard) {
  if (const auto a = number_of(given), b = number_of(standard); a && b) return *a == *b;
  if (standard == "true" || standard == "false") return parse_bool(given) == (standard == "true");
  return plain_value(given) == plain_value(standard);
}

// Each unknown key of a file with the nearest known one, as unknown_options_text() does.
std::string unknown_keys_text(const JsonObject& file, const std::vector<std::string>& known) {
  std::vector<std::string> unknown;
  for (const std::string& key : file.keys())
    if (std::find(known.begin(), known.end(), key) == known.end()) unknown.push_back(key);
  if (unknown.empty()) return "";
  if (unknown.size() == 1)
    return fmt::format("{}: unknown key \"{}\"{}", file.origin(), unknown[0], suggest_name(unknown[0], known));
  for (std::string& key : unknown) {
    const std::string near = nearest_name(key, known);
    key = fmt::format("\"{}\"{}", key, near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near));
  }
  return fmt::format("{}: unknown keys {}", file.origin(), fmt::join(unknown, ", "));
}

}  // namespace

const ArgumentParser::Foreign* ArgumentParser::find_foreign(std::string_view name) const {
  const auto it =
      std::find_if(foreign_.begin(), foreign_.end(), [&](const Foreign& flag) { return flag.name == name; });
  return it == foreign_.end() ? nullptr : &*it;
}

void ArgumentParser::note_foreign(const std::string& name, const std::string& value) {
  const Foreign* flag = find_foreign(name);
  if (flag == nullptr || flag->standard == "*" || is_same_value(value, flag->standard)) return;
  if (flag->is_absent)
    absent_.push_back(fmt::format("--{} ({})", name, flag->reason));
  else
    notes_.push_back(fmt::format("--{} {} has no effect: {}", name, value, flag->reason));
}

// Unknown flags precede those of other programs.
void ArgumentParser::report(std::vector<std::string> mistakes) const {
  if (!absent_.empty())
    mistakes.push_back(fmt::format("{} of Hugging Face's programs {}: {}", absent_.size() == 1 ? "a flag" : "flags",
                                   absent_.size() == 1 ? "does not exist here" : "do not exist here",
                                   fmt::join(absent_, ", ")));
  if (!mistakes.empty()) throw UsageError(fmt::format("{}", fmt::join(mistakes, "\n")));
}

// `--no_NAME` is NAME with the value false, unless it is a flag itself.
ArgumentParser::NamedValue ArgumentParser::meaning_of(const GivenOption& given) {
  const Row* row = find(given.name);
  if (row != nullptr) return {given.name, given.value ? *given.value : *row->bare};
  if (find_foreign(given.name) != nullptr) return {given.name, given.value.value_or("true")};
  return {given.name.substr(3), "false"};
}

// The last value of a name counts. Two names of one flag must have the same value.
void ArgumentParser::require_one_value(const std::vector<NamedValue>& given) {
  std::vector<NamedValue> last;
  for (const NamedValue& one : given) {
    std::erase_if(last, [&](const NamedValue& earlier) { return earlier.first == one.first; });
    last.push_back(one);
  }
  for (const auto& [name, value] : last)
    for (const auto& [other, other_value] : last) {
      const Row* a = find(name);
      const Row* b = find(other);
      if (&other == &name) break;  // each pair once
      if (a == nullptr || b == nullptr || a->target != b->target) continue;
      if (is_same_value(other_value, value) || is_same_value(value, other_value)) continue;
      throw UsageError(fmt::format("--{} {} and --{} {} are names of one flag with different values; give only one",
                                   other, other_value, name, value));
    }
}

void ArgumentParser::note_keys(const JsonObject& file, std::vector<std::string>& mistakes) {
  if (std::string text = unknown_keys_text(file, known_keys()); !text.empty()) mistakes.push_back(std::move(text));
  for (const std::string& key : file.keys())
    if (!file.is_null(key)) note_foreign(key, file.text(key));
}

void ArgumentParser::read_words(const std::vector<std::string>& arguments) {
  const bool has_file = !arguments.empty() && is_file(arguments[0]);
  absent_.clear();
  std::vector<std::string> mistakes;
  JsonObject file;
  if (has_file) note_keys(file = open_file(arguments[0]), mistakes);
  const CommandWords words = split_command_words({arguments.begin() + (has_file ? 1 : 0), arguments.end()}, syntax());
  if (!words.unknown.empty()) mistakes.push_back(unknown_options_text(words.unknown, syntax()));
  std::vector<NamedValue> given;
  for (const GivenOption& option : words.options) given.push_back(meaning_of(option));
  for (const auto& [name, value] : given) note_foreign(name, value);
  report(std::move(mistakes));
  require_one_value(given);
  for (const std::string& word : words.positional) {
    given.push_back(override_of(word));
    note_foreign(given.back().first, given.back().second);
  }
  has_overrides_ = !words.positional.empty();
  if (has_file) read_file(file);
  std::erase_if(given, [&](const NamedValue& one) { return find(one.first) == nullptr; });
  if (has_file) reset_excluded(given);
  for (const auto& [name, value] : given) assign(*find(name), value, name);
}

}  // namespace tessera
