// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/argument_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tessera/base/error.h"

namespace tessera {
namespace {

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> parse_bool(std::string_view text) {
  for (const std::string_view yes : {"true", "True", "yes", "1", "on"})
    if (text == yes) return true;
  for (const std::string_view no : {"false", "False", "no", "0", "off"})
    if (text == no) return false;
  return std::nullopt;
}

template <class T>
T parse_or_fail(std::string_view name, std::string_view text) {
  constexpr bool kWhole = std::is_same_v<T, std::int64_t>;
  const auto value = parse_number<T>(text);
  require(value.has_value(), "--{} takes {}, got \"{}\"", name, kWhole ? "an integer" : "a number", text);
  return *value;
}

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace

ArgumentParser& ArgumentParser::group(std::string title) {
  group_ = std::move(title);
  return *this;
}

ArgumentParser& ArgumentParser::add(std::string name, Target target, std::string help) {
  ensure(find(name) == nullptr, "flag --{} is defined twice", name);
  std::string standard = value_text(target);
  rows_.push_back(Row{std::move(name), target, std::move(help), std::move(standard), group_, {}, {}, false});
  return *this;
}

ArgumentParser& ArgumentParser::flag(std::string name, bool& value, std::string help) {
  add(std::move(name), &value, std::move(help));
  rows_.back().bare = "true";
  return *this;
}
ArgumentParser& ArgumentParser::flag(std::string name, std::int64_t& value, std::string help) {
  return add(std::move(name), &value, std::move(help));
}
ArgumentParser& ArgumentParser::flag(std::string name, double& value, std::string help) {
  return add(std::move(name), &value, std::move(help));
}
ArgumentParser& ArgumentParser::flag(std::string name, std::string& value, std::string help) {
  return add(std::move(name), &value, std::move(help));
}
ArgumentParser& ArgumentParser::flag(std::string name, std::optional<std::int64_t>& value, std::string help) {
  return add(std::move(name), &value, std::move(help));
}
ArgumentParser& ArgumentParser::flag(std::string name, std::optional<double>& value, std::string help) {
  return add(std::move(name), &value, std::move(help));
}
ArgumentParser& ArgumentParser::choice(std::string name, std::string& value, std::vector<std::string> choices,
                                       std::string help) {
  add(std::move(name), &value, std::move(help));
  rows_.back().choices = std::move(choices);
  return *this;
}
ArgumentParser& ArgumentParser::text_or_bare(std::string name, std::string& value, std::string bare, std::string help) {
  add(std::move(name), &value, std::move(help));
  rows_.back().bare = std::move(bare);
  return *this;
}

std::string ArgumentParser::value_text(const Target& target) {
  const auto optional_text = [](const auto* value) { return *value ? fmt::format("{}", **value) : std::string(); };
  return std::visit(Overloaded{[](const bool* value) { return std::string(*value ? "true" : "false"); },
                               [](const std::int64_t* value) { return fmt::format("{}", *value); },
                               [](const double* value) { return fmt::format("{}", *value); },
                               [](const std::string* value) { return *value; },
                               [&](const std::optional<std::int64_t>* value) { return optional_text(value); },
                               [&](const std::optional<double>* value) { return optional_text(value); }},
                    target);
}

ArgumentParser::Row* ArgumentParser::find(std::string_view name) {
  const auto it = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.name == name; });
  return it == rows_.end() ? nullptr : &*it;
}

std::vector<OptionSyntax> ArgumentParser::syntax() const {
  std::vector<OptionSyntax> out;
  for (const Row& row : rows_) {
    out.push_back({row.name, row.bare ? OptionSyntax::Value::kOptional : OptionSyntax::Value::kRequired});
    if (std::holds_alternative<bool*>(row.target)) out.push_back({"no_" + row.name, OptionSyntax::Value::kNone});
  }
  return out;
}

void ArgumentParser::assign(Row& row, const std::string& value) {
  const std::string& name = row.name;
  if (!row.choices.empty()) {
    const bool is_choice = std::find(row.choices.begin(), row.choices.end(), value) != row.choices.end();
    std::vector<std::string> named = row.choices;  // "" is the default of some flags
    std::erase(named, "");
    require(is_choice, "--{} takes one of {}, got \"{}\"", name, fmt::join(named, ", "), value);
  }
  const auto read_bool = [&](bool* target) {
    const auto parsed = parse_bool(value);
    require(parsed.has_value(), "--{} takes true or false, got \"{}\"", name, value);
    *target = *parsed;
  };
  std::visit(
      Overloaded{read_bool, [&](std::int64_t* target) { *target = parse_or_fail<std::int64_t>(name, value); },
                 [&](double* target) { *target = parse_or_fail<double>(name, value); },
                 [&](std::string* target) { *target = value; },
                 [&](std::optional<std::int64_t>* target) { *target = parse_or_fail<std::int64_t>(name, value); },
                 [&](std::optional<double>* target) { *target = parse_or_fail<double>(name, value); }},
      row.target);
  row.was_given = true;
}

bool ArgumentParser::parse(int argc, const char* const* argv) {
  return parse(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}

bool ArgumentParser::parse(const std::vector<std::string>& arguments) {
  for (const auto& argument : arguments)
    if (argument == "--help" || argument == "-h") return false;
  if (arguments.size() == 1 && arguments[0].ends_with(".json") && !arguments[0].starts_with("--")) {
    read_file(arguments[0]);
    return true;
  }
  const CommandWords words = read_command_words(arguments, syntax());
  if (!words.positional.empty())
    throw UsageError(fmt::format("unexpected argument \"{}\": an option starts with --, and a value follows its option",
                                 words.positional.front()));
  for (const GivenOption& given : words.options) {
    Row* row = find(given.name);
    if (row == nullptr)
      assign(*find(given.name.substr(3)), "false");  // --no_NAME
    else
      assign(*row, given.value ? *given.value : *row->bare);
  }
  return true;
}

void ArgumentParser::read_file(const std::string& path) {
  const JsonObject json = JsonObject::from_file(path);
  std::vector<std::string> known;
  for (const auto& row : rows_) known.push_back(row.name);
  json.require_known(known);
  for (const auto& key : json.keys()) {
    Row& row = *find(key);
    if (json.is_null(key)) continue;
    row.was_given = true;
    if (auto* text = std::get_if<std::string*>(&row.target); text != nullptr && row.bare && json.is_bool(key)) {
      bool is_given = false;
      json.read(key, is_given);
      **text = is_given ? *row.bare : "";  // as the flag without a value, and as no flag
      continue;
    }
    std::visit([&](auto* target) { json.read(key, *target); }, row.target);
    if (std::holds_alternative<std::string*>(row.target)) assign(row, value_text(row.target));  // checks the choices
  }
}

std::string ArgumentParser::help() const {
  constexpr std::size_t kColumn = 40;
  std::string out = fmt::format("usage: {} [--flag value]… | FILE.json\n{}\n", program_, about_);
  std::string group;
  for (const auto& row : rows_) {
    if (row.group != group || &row == rows_.data()) {
      group = row.group;
      out += fmt::format("\n{}\n", group.empty() ? "flags" : group);
    }
    std::string left = "  --" + row.name;
    if (!row.choices.empty()) left += fmt::format(" {}", fmt::join(row.choices, "|"));
    left += left.size() + 2 > kColumn ? "\n" + std::string(kColumn, ' ') : std::string(kColumn - left.size(), ' ');
    out += left + row.help;
    if (!row.standard.empty()) out += fmt::format(" [{}]", row.standard);
    out += '\n';
  }
  return out;
}

bool ArgumentParser::was_given(std::string_view name) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) { return row.name == name && row.was_given; });
}

std::vector<std::string> ArgumentParser::given() const {
  std::vector<std::string> out;
  for (const auto& row : rows_)
    if (row.was_given) out.push_back(fmt::format("--{} {}", row.name, value_text(row.target)));
  return out;
}

std::vector<std::pair<std::string, std::string>> ArgumentParser::values() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& row : rows_) out.emplace_back(row.name, value_text(row.target));
  return out;
}

}  // namespace tessera
