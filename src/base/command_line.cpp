// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/command_line.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>

namespace tessera {
namespace {

namespace po = boost::program_options;
using Value = OptionSyntax::Value;

// Turns --max-steps into --max_steps.
std::string canonical(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

// Returns the name in an option word: max_steps for `--max-steps=5`, o for `-o`, and "" for other words.
std::string name_in(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  if (name.size() > 2 && name.starts_with("--")) return canonical(name.substr(2));
  return name.size() == 2 && name[0] == '-' && name[1] != '-' ? std::string(name.substr(1)) : std::string();
}

// Whether the word has the form of an option, known or not.
bool is_option(std::string_view word) {
  return word.starts_with("--") ? !name_in(word).empty() : word.size() > 1 && word[0] == '-';
}

void add_once(const std::string& name, std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

const OptionSyntax* find(const std::vector<OptionSyntax>& options, std::string_view name) {
  const auto it = std::find_if(options.begin(), options.end(),
                               [&](const OptionSyntax& option) { return canonical(option.name) == canonical(name); });
  return it == options.end() ? nullptr : &*it;
}

po::options_description description_of(const std::vector<OptionSyntax>& options) {
  po::options_description out;
  for (const OptionSyntax& option : options) {
    const std::string name = (option.name.size() == 1 ? "," : "") + canonical(option.name);
    if (option.value == Value::kNone)
      out.add_options()(name.c_str(), "");
    else if (option.value == Value::kRequired)
      out.add_options()(name.c_str(), po::value<std::string>(), "");
    else
      out.add_options()(name.c_str(), po::value<std::string>()->implicit_value(""), "");
  }
  return out;
}

// Removes an unknown option and the words that may be its values. Returns its name with dashes.
std::string take_unknown(std::vector<std::string>& words) {
  std::string name = words.front().substr(0, words.front().find('='));
  const auto is_long = [](const std::string& word) { return word.starts_with("--"); };
  words.erase(words.begin(), std::find_if(words.begin() + 1, words.end(), is_long));
  return name;
}

// Handles the options that Program_options does not: unknown ones, an empty value after =, underscores in place of dashes, an
// optional value in the next word, and an error if the next word is another option instead of a value. Returns nothing
// for all other words.
std::vector<po::option> read_own_styles(const std::vector<OptionSyntax>& options, std::vector<std::string>& words,
                                        std::vector<std::string>& unknown) {
  const std::string& word = words.front();
  const OptionSyntax* option = find(options, name_in(word));
  if (option == nullptr && is_option(word)) add_once(take_unknown(words), unknown);
  if (option == nullptr) return {};
  if (option->value == Value::kRequired && word.find('=') == std::string::npos &&
      (words.size() == 1 || find(options, name_in(words[1])) != nullptr))
    throw UsageError(fmt::format("{} needs {}", dashed(option->name), option->placeholder));
  po::option out;
  out.string_key = (option->name.size() == 1 ? "-" : "") + canonical(option->name);
  std::size_t taken = 1;
  if (const auto equals = word.find('='); equals != std::string::npos) {
    out.value = {word.substr(equals + 1)};
  } else if (option->value == Value::kOptional && words.size() > 1 && !words[1].starts_with("--")) {
    out.value = {words[1]};
    taken = 2;
  } else if (option->value == Value::kRequired) {
    out.value = {words[1]};
    taken = 2;
  } else if (option->value == Value::kMany) {
    for (; taken < words.size() && !words[taken].starts_with("--"); ++taken)
      out.value.assign(1, out.value.empty() ? words[taken] : out.value.front() + " " + words[taken]);
  }
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(taken));
  return {out};
}

}  // namespace

int exit_code_of(const std::exception& error) {
  constexpr int kUsage = 2;
  return dynamic_cast<const UsageError*>(&error) != nullptr ? kUsage : 1;
}

void fail_for_option(std::string_view option, const Error& error) {
  const std::string reason = error.what();
  const std::string text = reason.starts_with(option) ? reason : fmt::format("{}: {}", option, reason);
  if (dynamic_cast<const FileError*>(&error) != nullptr) throw FileError(text);
  throw UsageError(text);
}

std::string dashed(std::string_view name) { return (name.size() == 1 ? "-" : "--") + std::string(name); }

std::string unknown_options_text(const std::vector<std::string>& unknown, const std::vector<OptionSyntax>& options) {
  std::vector<std::string> known;
  for (const OptionSyntax& option : options) known.push_back(dashed(option.name));
  std::vector<std::string> names;
  bool all_are_near = true;
  for (const std::string& name : unknown) {
    const std::string near = nearest_name(name, known);
    all_are_near = all_are_near && !near.empty();
    const char* const format = unknown.size() == 1 ? "{}; did you mean \"{}\"?" : "{} (did you mean \"{}\"?)";
    names.push_back(near.empty() ? name : fmt::format(fmt::runtime(format), name, near));
  }
  return fmt::format("unknown {} {}{}", unknown.size() == 1 ? "option" : "options", fmt::join(names, ", "),
                     all_are_near ? "" : "; --help lists the options");
}

CommandWords read_command_words(const std::vector<std::string>& words, const std::vector<OptionSyntax>& options) {
  CommandWords out = split_command_words(words, options);
  if (!out.unknown.empty()) throw UsageError(unknown_options_text(out.unknown, options));
  return out;
}

CommandWords split_command_words(const std::vector<std::string>& words, const std::vector<OptionSyntax>& options) {
  using Style = po::command_line_style::style_t;
  const po::options_description description = description_of(options);
  CommandWords out;
  try {
    const auto parsed = po::command_line_parser(words)
                            .options(description)
                            .style(Style::allow_long | Style::long_allow_next | Style::long_allow_adjacent |
                                   Style::allow_short | Style::allow_dash_for_short | Style::short_allow_next)
                            .extra_style_parser([&](std::vector<std::string>& left) {
                              return read_own_styles(options, left, out.unknown);
                            })
                            .run();
    for (const po::option& option : parsed.options) {
      if (option.position_key >= 0) {
        out.positional.insert(out.positional.end(), option.value.begin(), option.value.end());
        continue;
      }
      const OptionSyntax* syntax = find(options, option.string_key.substr(option.string_key.starts_with('-') ? 1 : 0));
      out.options.push_back({syntax->name, option.value.empty() ? std::nullopt : std::optional(option.value.front())});
    }
  } catch (const po::unknown_option& error) {
    add_once(error.get_option_name(), out.unknown);
  } catch (const po::invalid_command_line_syntax& error) {
    throw UsageError(fmt::format("{} takes no value", error.get_option_name()));
  }
  return out;
}

}  // namespace tessera
