// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "tessera/base/files.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/base/text_cursor.h"
#include "tessera/collectives/world.h"
#include "tessera/version.h"

namespace tessera::command {
namespace {

// Returns the position where a text defines `name = ..`, if there is exactly one.
std::optional<std::size_t> place_of(std::string_view text, std::string_view name) {
  std::optional<std::size_t> place;
  for (auto found = text.find(name); found != std::string_view::npos; found = text.find(name, found + 1)) {
    if (found > 0 && std::string_view(" \t\n%{").find(text[found - 1]) == std::string_view::npos) continue;
    TextCursor in(text);
    in.seek(found);
    if (!in.take_word(name) || text.substr(in.position(), 2) != " =") continue;
    if (place) return std::nullopt;
    place = found;
  }
  return place;
}

// If the error is `%m: reason` for a program from a file, adds the location of %m in the file.
Error with_place(const Error& error, const std::string& file) {
  const std::string message = error.what();
  if (!message.starts_with('%') || file == "-" || !why_unreadable(file).empty()) return error;
  const auto name = TextCursor(std::string_view(message).substr(1)).peek_identifier();
  if (name.empty() || message.substr(name.size() + 1, 2) != ": ") return error;
  const std::string text = read_file(file);
  const auto place = place_of(text, name);
  if (!place) return error;
  const TextCursor in(text, file);
  return Error(fmt::format("{}{}\n{}", in.place(*place), trim(message), in.excerpt(*place)));
}

std::string general_help() {
  std::string out =
      "tessera: partitions, explains, checks and runs HLO programs, starts jobs, inspects checkpoints and tokenizes "
      "text\n\n"
      "usage: tessera <verb> IN.hlo [options]\n"
      "       tessera plan config.json|IN.hlo [options]\n"
      "       tessera visualize SHAPE SHARDING [options]\n"
      "       tessera calibrate OUT.json [options]\n"
      "       tessera launch [options] -- PROGRAM ARGUMENTS...\n"
      "       tessera hosts [options] -- COMMAND ARGUMENTS...\n"
      "       tessera checkpoint <verb> DIR [options]\n"
      "       tessera tokenize INPUT... -o OUT.tokens [options]\n"
      "       tessera trace FILE.json [options]\n"
      "       tessera env | tessera report [FILE]\n"
      "       tessera doctor [options] -- PROGRAM ARGUMENTS...\n\n";
  for (const Verb* verb : verbs()) out += fmt::format("  {:<24}{}\n", verb->name, verb->about);
  return out +
         "\n"
         "`tessera <verb> --help` prints the options of a verb, `tessera --version` the build. IN.hlo may be - for "
         "standard input.\n"
         "Exit codes: 0: success; 1: the input is wrong, or output cannot be written; 2: the command line is wrong;\n"
         "3: a difference was found, or no layout fits into the memory.\n";
}

// True for the first word of verbs of two words, such as `checkpoint inspect`.
bool is_first_word(const std::string& word) {
  return std::any_of(verbs().begin(), verbs().end(),
                     [&](const Verb* verb) { return verb->name.starts_with(word + " "); });
}

// The verbs of two words that begin with `word`.
std::string help_of_first_word(const std::string& word) {
  std::string out = fmt::format("usage: tessera {} <verb> DIR [options]\n\n", word);
  for (const Verb* verb : verbs())
    if (verb->name.starts_with(word + " ")) out += fmt::format("  {:<24}{}\n", verb->name, verb->about);
  return out + fmt::format("\n`tessera {} <verb> --help` prints the options of a verb.\n", word);
}

const Verb& find_verb(const std::string& name) {
  std::vector<std::string> known;
  for (const Verb* verb : verbs()) {
    if (verb->name == name) return *verb;
    known.emplace_back(verb->name);
  }
  throw UsageError(fmt::format("unknown verb \"{}\"{}", name, suggest_name(name, known)));
}

std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool asks_for_help(const Verb& verb, const std::vector<std::string>& words) {
  const auto end = words.begin() + static_cast<std::ptrdiff_t>(verb.option_count(words));
  return std::any_of(words.begin(), end, [](const auto& word) { return word == "--help" || word == "-h"; });
}

}  // namespace

std::string version_text() {
#if defined(__clang__)
  const std::string compiler = "Clang " __clang_version__;
#elif defined(__GNUC__)
  const std::string compiler = "GCC " __VERSION__;
#else
  const std::string compiler = "unknown";
#endif
#ifdef NDEBUG
  const std::string_view build = "release";
#else
  const std::string_view build = "with assertions";
#endif
  return fmt::format("tessera   {}\ncompiler  {}, {}\nMPI       {}\n", kVersion, trim(compiler), build, mpi_library());
}

std::optional<std::string> Arguments::value(std::string_view name) const {
  const auto found = values_.find(std::string(name));
  if (found == values_.end()) return std::nullopt;
  return found->second.back();
}

std::string Arguments::value_or(std::string_view name, std::string_view otherwise) const {
  return value(name).value_or(std::string(otherwise));
}

std::vector<std::string> Arguments::values(std::string_view name) const {
  const auto found = values_.find(std::string(name));
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

std::int64_t Arguments::number_or(std::string_view name, std::int64_t otherwise) const {
  const auto text = value(name);
  if (!text) return otherwise;
  const auto number = number_of(*text);
  ensure(number.has_value(), "{} was not checked to be a number", dashed(name));
  return *number;
}

ValueCheck integer_in_range(std::int64_t least, std::int64_t most) {
  return [least, most](std::string_view option, const std::string& value) {
    const auto number = number_of(value);
    const bool is_open = most == std::numeric_limits<std::int64_t>::max();
    require(number && *number >= least && *number <= most, "{} takes a number {}, got \"{}\"", option,
            is_open ? fmt::format("of at least {}", least) : fmt::format("from {} to {}", least, most), value);
  };
}

ValueCheck byte_count() {
  return [](std::string_view option, const std::string& value) {
    require(parse_bytes(value, option) >= 1, "{} takes a size of at least 1 byte, got \"{}\"", option, value);
  };
}

ValueCheck one_of(std::vector<std::string> choices) {
  return [choices = std::move(choices)](std::string_view option, const std::string& value) {
    const bool is_choice = std::find(choices.begin(), choices.end(), value) != choices.end();
    require(is_choice, "{} takes one of {}, got \"{}\"", option, fmt::join(choices, ", "), value);
  };
}

Option repeated(Option option) {
  option.repeats = true;
  return option;
}

namespace {

// --num_cores as --num-cores.
std::string with_dashes(std::string_view word) {
  std::string out(word);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

void check_value(const Option& option, const std::string& value) {
  if (option.check) read_option(dashed(option.name), [&] { option.check(dashed(option.name), value); });
}

// Of two different values, the first would have no effect.
void check_given_once(const Option& option, const std::vector<std::string>& values) {
  if (option.repeats || values.size() < 2 || values[values.size() - 2] == values.back()) return;
  throw UsageError(fmt::format("{} is given twice, with {} and {}; give it once", dashed(option.name),
                               values[values.size() - 2], values.back()));
}

// Reports outputs that would overwrite each other, and files that cannot be written, before the work starts.
void check_output_files(const std::vector<Option>& options, const Arguments& arguments) {
  std::map<std::string, std::string_view> option_of;  // by file
  for (const Option& option : options) {
    const auto path = arguments.value(option.name);
    if (!option.writes_file || !path) continue;
    const bool is_standard = *path == "-";
    const auto file =
        is_standard ? *path : std::filesystem::weakly_canonical(std::filesystem::absolute(*path)).string();
    const auto [other, is_new] = option_of.emplace(file, option.name);
    if (!is_new)
      throw UsageError(fmt::format("{} and {} both write to {}; give them different files", dashed(other->second),
                                   dashed(option.name), is_standard ? "standard output" : *path));
  }
  for (const auto& [file, name] : option_of)
    if (file != "-") check_writable(*arguments.value(name));
}

}  // namespace

// The option that a word names, with or without a value after `=`; null if there is none.
const Option* Verb::option_of(std::string_view word) const {
  const std::string name = with_dashes(word.substr(0, word.find('=')));
  const auto found = std::find_if(options.begin(), options.end(), [&](const Option& option) {
    return name == dashed(option.name) || std::find(option.also.begin(), option.also.end(), name) != option.also.end();
  });
  return found == options.end() ? nullptr : &*found;
}

std::size_t Verb::option_count(const std::vector<std::string>& words) const {
  if (!takes_program) return words.size();
  std::size_t i = 0;
  while (i < words.size() && words[i] != "--" && words[i].starts_with('-')) {
    const Option* option = option_of(words[i]);
    const bool takes_next =
        option != nullptr && !option->value.empty() && words[i].find('=') == std::string::npos && i + 1 < words.size();
    i += takes_next ? 2 : 1;
  }
  return i;
}

Arguments Verb::read(const std::vector<std::string>& words) const {
  std::vector<OptionSyntax> syntax;
  for (const Option& option : options) {
    const bool is_switch = option.value.empty();
    syntax.push_back({std::string(option.name), is_switch ? OptionSyntax::Value::kNone : OptionSyntax::Value::kRequired,
                      std::string(option.value)});
  }
  Arguments out;
  const auto program = words.begin() + static_cast<std::ptrdiff_t>(option_count(words));
  std::vector<std::string> own(words.begin(), program);
  const bool is_separated = program != words.end() && *program == "--";
  if (takes_program) {
    for (std::string& word : own)
      if (const Option* option = option_of(word))
        word = dashed(option->name) + word.substr(std::min(word.find('='), word.size()));
  }
  CommandWords given = read_command_words(own, syntax);
  for (const auto& [name, value] : given.options) {
    const Option& option =
        *std::find_if(options.begin(), options.end(), [&](const Option& o) { return o.name == name; });
    check_value(option, value.value_or(""));
    auto& values = out.values_[name];
    values.push_back(value.value_or(""));
    if (!takes_program) check_given_once(option, values);  // scripts give defaults to a launcher, and replace them
  }
  if (takes_program) given.positional.assign(is_separated ? program + 1 : program, words.end());
  if (!no_input_with.empty() && out.has(no_input_with)) {
    if (given.positional.empty()) return out;
    throw UsageError(fmt::format("{} takes no input, got \"{}\"", dashed(no_input_with), given.positional[0]));
  }
  if (given.positional.empty() && !needs_input) return out;
  if (given.positional.empty()) throw UsageError(fmt::format("an input is missing: {}", input_meaning));
  if (input.empty()) throw UsageError(fmt::format("no input is expected, got \"{}\"", given.positional[0]));
  if (given.positional.size() > 1 && !takes_several && !takes_program)
    throw UsageError(
        fmt::format("one input is expected, got \"{}\" and \"{}\"", given.positional[0], given.positional[1]));
  out.inputs_ = given.positional;
  return out;
}

namespace {

// Breaks lines that are wider than the terminal usually is. Lines after the first begin with `indent` blanks.
std::string wrapped(std::string_view text, std::size_t indent) {
  constexpr std::size_t kWidth = 120;
  std::string out;
  std::size_t column = indent;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(" \n", 1), text.size());  // a word with the blank before it
    if (text[0] == ' ' && column + end > kWidth) {
      out += "\n" + std::string(indent - 1, ' ');
      column = indent - 1;
    }
    column = text[0] == '\n' ? end - 1 : column + end;
    out += text.substr(0, end);
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace

std::string Verb::help() const {
  const std::string words = takes_program   ? fmt::format("[options] {}", input)
                            : input.empty() ? "[options]"
                                            : fmt::format("{} [options]", input);
  std::string out = fmt::format("tessera {}: {}\n\nusage: tessera {} {}\n\n", name, about, name, words);
  constexpr std::size_t kHelpColumn = 36;
  for (const auto& option : options) {
    if (option.help.empty()) continue;  // for the command itself
    std::string left = dashed(option.name) + (option.value.empty() ? "" : " ") + std::string(option.value);
    if (left.size() + 2 >= kHelpColumn) left += "\n" + std::string(kHelpColumn, ' ');
    out += fmt::format("  {:<34}{}\n", left, wrapped(option.help, kHelpColumn));
  }
  out += fmt::format("  {:<34}{}\n", "--help", "this text");
  if (!notes.empty()) out += fmt::format("\n{}\n", notes);
  return out;
}

const std::vector<const Verb*>& verbs() {
  static const std::vector<const Verb*> kAll = {&kPartition,
                                                &kOptimize,
                                                &kStats,
                                                &kCheck,
                                                &kRun,
                                                &kPrint,
                                                &kLaunch,
                                                &kHosts,
                                                &kCheckpointInspect,
                                                &kCheckpointVerify,
                                                &kCheckpointConsolidate,
                                                &kCheckpointReshard,
                                                &kCheckpointDiff,
                                                &kTokenize,
                                                &kTrace,
                                                &kVisualize,
                                                &kCalibrate,
                                                &kPlan,
                                                &kEnv,
                                                &kReport,
                                                &kDoctor};
  return kAll;
}

int run_command(const std::vector<std::string>& words) {
  std::string prefix = "tessera";
  try {
    if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
      std::fputs(general_help().c_str(), words.empty() ? stderr : stdout);
      return words.empty() ? kUsage : kGood;
    }
    if (words[0] == "--version" || words[0] == "-V" || words[0] == "version") {
      write_standard_output(version_text());
      return kGood;
    }
    const bool has_two_words = is_first_word(words[0]);
    if (has_two_words && (words.size() == 1 || words[1] == "--help" || words[1] == "-h" || words[1] == "help")) {
      std::fputs(help_of_first_word(words[0]).c_str(), words.size() == 1 ? stderr : stdout);
      return words.size() == 1 ? kUsage : kGood;
    }
    const Verb& verb = find_verb(has_two_words ? words[0] + " " + words[1] : words[0]);
    prefix += fmt::format(" {}", verb.name);
    const std::vector<std::string> rest(words.begin() + (has_two_words ? 2 : 1), words.end());
    if (asks_for_help(verb, rest)) {
      write_standard_output(verb.help());
      return kGood;
    }
    const Arguments arguments = verb.read(rest);
    const Verb* with_ranks[] = {&kRun, &kLaunch, &kCalibrate, &kEnv, &kReport, &kDoctor};  // their rank 0 warns later
    const bool has_ranks = std::find(std::begin(with_ranks), std::end(with_ranks), &verb) != std::end(with_ranks);
    if (!has_ranks) warn_of_unknown_variables();
    try {
      check_output_files(verb.options, arguments);
      return verb.run(arguments);
    } catch (InternalError&) {
      throw;
    } catch (UsageError&) {
      throw;
    } catch (const Error& error) {
      if (arguments.inputs().empty()) throw;
      throw with_place(error, arguments.input());
    }
  } catch (const UsageError& error) {
    return fail_before_world(fmt::format("{}: {}\ntry `{} --help`", prefix, error.what(), prefix), kUsage);
  } catch (const std::exception& error) {
    return fail_before_world(fmt::format("{}: {}", prefix, message_for_user(error)), kInputIsWrong);
  }
}

}  // namespace tessera::command
