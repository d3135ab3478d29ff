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

template <class T>
T parse_or_fail(std::string_view name, std::string_view text) {
  constexpr bool kIsInteger = std::is_same_v<T, std::int64_t>;
  const auto value = parse_number<T>(text);
  require(value.has_value(), "--{} takes {}, got \"{}\"", name, kIsInteger ? "an integer" : "a number", text);
  return *value;
}

OptionSyntax::Value syntax_of(bool has_bare, bool takes_words) {
  using Value = OptionSyntax::Value;
  if (!has_bare) return Value::kRequired;
  return takes_words ? Value::kMany : Value::kOptional;
}

// The choices of a flag without "", the default of some flags.
std::vector<std::string> named_choices(std::vector<std::string> choices) {
  std::erase(choices, "");
  return choices;
}

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace

std::optional<bool> parse_bool(std::string_view text) {
  for (const std::string_view yes : {"true", "True", "yes", "1", "on"})
    if (text == yes) return true;
  for (const std::string_view no : {"false", "False", "no", "0", "off"})
    if (text == no) return false;
  return std::nullopt;
}

ArgumentParser& ArgumentParser::group(std::string title) {
  group_ = std::move(title);
  return *this;
}

ArgumentParser& ArgumentParser::add(std::string name, Target target, std::string help) {
  ensure(find(name) == nullptr, "flag --{} is defined twice", name);
  std::string standard = value_text(target);
  rows_.push_back(Row{std::move(name), target, std::move(help), std::move(standard), group_, {}, {}});
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

ArgumentParser& ArgumentParser::words_or_bare(std::string name, std::string& value, std::string bare,
                                              std::string help) {
  text_or_bare(std::move(name), value, std::move(bare), std::move(help));
  rows_.back().takes_words = true;
  return *this;
}
ArgumentParser& ArgumentParser::also_true(std::vector<std::string> words) {
  ensure(std::holds_alternative<bool*>(rows_.back().target), "flag --{} is not a bool", rows_.back().name);
  rows_.back().true_words = std::move(words);
  return *this;
}
ArgumentParser& ArgumentParser::alias(std::string name, const std::string& of) {
  ensure(find(of) != nullptr && find(name) == nullptr, "flag --{} for --{}", name, of);
  aliases_.emplace_back(std::move(name), of);
  return *this;
}
ArgumentParser& ArgumentParser::override_name(std::string name, std::string of) {
  if (find(of) != nullptr) override_names_.emplace_back(std::move(name), std::move(of));
  return *this;
}
ArgumentParser& ArgumentParser::without_effect(std::string name, std::string standard, std::string reason) {
  if (find(name) == nullptr) foreign_.push_back({std::move(name), std::move(standard), std::move(reason), false});
  return *this;
}
ArgumentParser& ArgumentParser::absent(std::string name, std::string standard, std::string reason) {
  if (find(name) == nullptr) foreign_.push_back({std::move(name), std::move(standard), std::move(reason), true});
  return *this;
}
bool ArgumentParser::Exclusive::has(const std::string& value_of_flag) const {
  if (!value.empty()) return value_of_flag == value;
  return !value_of_flag.empty() && parse_bool(value_of_flag) != false;
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
  for (const auto& [other, of] : aliases_)
    if (other == name) name = of;
  const auto it = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.name == name; });
  return it == rows_.end() ? nullptr : &*it;
}

std::vector<OptionSyntax> ArgumentParser::syntax() const {
  std::vector<OptionSyntax> out;
  for (const Row& row : rows_) {
    const OptionSyntax::Value value = syntax_of(row.bare.has_value(), row.takes_words);
    std::vector<std::string> names = {row.name};
    for (const auto& [name, of] : aliases_)
      if (of == row.name) names.push_back(name);
    for (const std::string& name : names) {
      out.push_back({name, value});
      if (std::holds_alternative<bool*>(row.target)) out.push_back({"no_" + name, OptionSyntax::Value::kNone});
    }
  }
  for (const Foreign& flag : foreign_) {
    out.push_back({flag.name, OptionSyntax::Value::kMany});
    if (flag.standard == "true") out.push_back({"no_" + flag.name, OptionSyntax::Value::kNone});
  }
  return out;
}

void ArgumentParser::assign(Row& row, const std::string& value, const std::string& name) {
  if (!row.choices.empty()) {
    const bool is_choice = std::find(row.choices.begin(), row.choices.end(), value) != row.choices.end();
    require(is_choice, "--{} takes one of {}, got \"{}\"", name, fmt::join(named_choices(row.choices), ", "), value);
  }
  const auto read_bool = [&](bool* target) {
    const std::vector<std::string>& words = row.true_words;
    const bool is_true_word = std::find(words.begin(), words.end(), value) != words.end();
    const auto parsed = is_true_word ? true : parse_bool(value);
    require(parsed.has_value(), "--{} takes {}{}true or false, got \"{}\"", name, fmt::join(words, ", "),
            words.empty() ? "" : ", ", value);
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
  row.is_of_file = false;
  row.given_name = name;
}

bool ArgumentParser::parse(int argc, const char* const* argv) {
  return parse(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}

bool ArgumentParser::parse(const std::vector<std::string>& arguments) {
  for (const auto& argument : arguments)
    if (argument == "--help" || argument == "-h") return false;
  read_option("", [&] { read_words(arguments); });
  return true;
}

ArgumentParser::NamedValue ArgumentParser::override_of(const std::string& word) const {
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  std::vector<std::string> known;
  for (const auto& [other, of] : override_names_) {
    if (equals != std::string::npos && other == name) return {of, word.substr(equals + 1)};
    known.push_back(other);
  }
  for (const Foreign& flag : foreign_)
    if (flag.name.find('.') != std::string::npos) known.push_back(flag.name);
  const bool is_override = equals != std::string::npos && name.find('.') != std::string::npos;
  if (is_override && find_foreign(name) != nullptr) return {name, word.substr(equals + 1)};
  if (is_override) throw UsageError(fmt::format("unknown override {}{}", name, suggest_name(name, known)));
  throw UsageError(
      fmt::format("unexpected argument \"{}\": an option starts with --, and a value follows its option", word));
}

std::string ArgumentParser::help() const {
  constexpr std::size_t kColumn = 40;
  std::string out = fmt::format("usage: {} [FILE.json] [--flag value]…\n{}\n", program_, about_);
  std::string group;
  for (const auto& row : rows_) {
    if (row.group != group || &row == rows_.data()) {
      group = row.group;
      out += fmt::format("\n{}\n", group.empty() ? "flags" : group);
    }
    std::string left = "  --" + row.name;
    if (!row.choices.empty()) left += fmt::format(" {}", fmt::join(named_choices(row.choices), "|"));
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

bool ArgumentParser::was_chosen(std::string_view name) const {
  const auto named = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.name == name; });
  if (named == rows_.end()) return false;
  return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) {
    const bool is_other_name = row.target == named->target;
    return is_other_name && row.was_given && (!row.is_of_file || value_text(row.target) != row.standard);
  });
}

std::string ArgumentParser::given_name(std::string_view name) const {
  for (const Row& row : rows_)
    if (row.name == name && !row.given_name.empty()) return row.given_name;
  return std::string(name);
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

std::string ArgumentParser::configuration() const {
  std::string out;
  std::string group;
  for (const Row& row : rows_) {
    const std::string value = value_text(row.target);
    if (value.empty()) continue;
    if (row.group != group) out += row.group + "\n";
    group = row.group;
    const auto key = std::find_if(override_names_.begin(), override_names_.end(),
                                  [&](const auto& one) { return one.second == row.name; });
    out += fmt::format("  --{} {}{}\n", row.name, value,
                       key == override_names_.end() ? "" : fmt::format("  ({})", key->first));
  }
  return out;
}

}  // namespace tessera
