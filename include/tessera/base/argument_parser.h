// SPDX-License-Identifier: Apache-2.0
// Reads command lines in Hugging Face's style. Each flag is bound to a variable. The initial value of the variable is
// the default of the flag.
//
//   std::int64_t steps = 100;
//   ArgumentParser parser("train", "Trains a model.");
//   parser.flag("max_steps", steps, "number of updates; -1: determined by num_train_epochs");
//   if (!parser.parse(argc, argv)) { fmt::print("{}", parser.help()); return 0; }
//
// `--max_steps 5`, `--max_steps=5` and `--max-steps 5` mean the same. The last value counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/base/command_line.h"
#include "tessera/base/json_object.h"

namespace tessera {

/// Reads true, yes, 1 or on as true, and false, no, 0 or off as false. Returns nullopt for other texts.
std::optional<bool> parse_bool(std::string_view text);

/// The flags of a program, which it reads from a command line or a file.
class ArgumentParser {
 public:
  ArgumentParser(std::string program, std::string about) : program_(std::move(program)), about_(std::move(about)) {}

  /// Starts a group of flags in the help.
  ArgumentParser& group(std::string title);
  /// A flag that may have a value: true, yes, 1, on, or false, no, 0, off. Without a value it is true. `--no_NAME` sets
  /// it to false.
  ArgumentParser& flag(std::string name, bool& value, std::string help);
  /// A flag with a value. Without the flag, an optional stays as it is, usually nullopt.
  ArgumentParser& flag(std::string name, std::int64_t& value, std::string help);
  ArgumentParser& flag(std::string name, double& value, std::string help);
  ArgumentParser& flag(std::string name, std::string& value, std::string help);
  ArgumentParser& flag(std::string name, std::optional<std::int64_t>& value, std::string help);
  ArgumentParser& flag(std::string name, std::optional<double>& value, std::string help);
  /// A text that must be one of `choices`.
  ArgumentParser& choice(std::string name, std::string& value, std::vector<std::string> choices, std::string help);
  /// A text that is `bare` if the flag has no value: `--fsdp` means `--fsdp true`.
  ArgumentParser& text_or_bare(std::string name, std::string& value, std::string bare, std::string help);

  /// The same, but the value may be several words: `--fsdp full_shard auto_wrap`. They are joined by blanks.
  ArgumentParser& words_or_bare(std::string name, std::string& value, std::string bare, std::string help);
  /// More words that mean true for the flag that was added last, which must be a bool.
  ArgumentParser& also_true(std::vector<std::string> words);
  /// Another name of a flag that was added before.
  ArgumentParser& alias(std::string name, const std::string& of);
  /// Gives a flag a name in overrides: words such as `training.max_updates=5`, whose value replaces that of the flag.
  /// Does nothing if there is no such flag.
  ArgumentParser& override_name(std::string name, std::string of);
  /// A flag of another program that is accepted but has no effect here. If its value differs from `standard`, notes()
  /// contains a line with the reason. The standard `*` allows every value without a note. If the standard is `true`,
  /// `--no_NAME` means false.
  ArgumentParser& without_effect(std::string name, std::string standard, std::string reason);
  /// A flag of another program that is refused here, with the reason or a replacement. parse() reports all such flags
  /// in one error, except those with the value `standard`; the
  /// unknown flags precede them.
  ArgumentParser& absent(std::string name, std::string standard, std::string reason);

  /// Declares that only one of the two flags may be given. parse() does not check this; but if a file has one of them
  /// and the command line the other, the flag of the file gets its default. `dtype=float64` means the flag with this
  /// value; otherwise a flag excludes the other one unless it is empty, false or 0. Does nothing if there is no such
  /// flag.
  ArgumentParser& exclude(std::string_view one, std::string_view other);

  /// Sets the variables. Returns false, and sets nothing, if --help is among the arguments. If the first argument ends
  /// in .json, it is the path of a file with flags: {"max_steps": 5, …}. Flags after it replace its values. The key
  /// `program` names the program that wrote the file. UsageErrors: unknown flags (all of them, with the nearest known
  /// ones), a missing value, a value of another type, two names of one flag with different values, a file of another
  /// program. FileError: the file cannot be read, or is not JSON.
  bool parse(int argc, const char* const* argv);
  bool parse(const std::vector<std::string>& arguments);
  /// Whether parse() reads `argument`, the first one of a command line, as a file with flags.
  [[nodiscard]] static bool is_file(std::string_view argument);
  /// Returns a text with every flag, its default and its meaning.
  [[nodiscard]] std::string help() const;
  /// True when the command line (or file) set the flag.
  [[nodiscard]] bool was_given(std::string_view name) const;
  /// True when the command line set the flag, or a file set it to another value than its default. A file that json()
  /// has written sets every flag.
  [[nodiscard]] bool was_chosen(std::string_view name) const;
  /// The name by which the flag was given: its own or an alias. Returns `name` if it was not given.
  [[nodiscard]] std::string given_name(std::string_view name) const;
  /// Returns all given flags as `--name value`, in a form that can be typed again.
  [[nodiscard]] std::vector<std::string> given() const;
  /// One line for each given flag without effect.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  /// The name and value of every flag, whether given or not. Omits flags without effect and aliases.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> values() const;
  /// The same, in the form of the file that parse() reads, with the name of the program. A flag without a value is
  /// null.
  [[nodiscard]] JsonObject json() const;
  /// Returns every flag with a value as a line `  --name value`, under the titles of the groups. The name that the flag
  /// has in an override follows in parentheses.
  [[nodiscard]] std::string configuration() const;
  /// True when the command line had an override.
  [[nodiscard]] bool has_overrides() const { return has_overrides_; }

 private:
  using Target =
      std::variant<bool*, std::int64_t*, double*, std::string*, std::optional<std::int64_t>*, std::optional<double>*>;
  struct Row {
    std::string name;
    Target target;
    std::string help;
    std::string standard;  // the default, as text
    std::string group;
    std::vector<std::string> choices;
    std::optional<std::string> bare;  // its meaning without a value
    bool takes_words = false;
    bool was_given = false;
    bool is_of_file = false;                // the last value
    std::string given_name{};               // the name that had the last value
    std::vector<std::string> true_words{};  // of a bool, besides true, yes, 1, on
  };
  // A flag of another program.
  struct Foreign {
    std::string name;
    std::string standard;
    std::string reason;
    bool is_absent = false;
  };
  // A flag that excludes another one.
  struct Exclusive {
    std::string name;
    std::string value;  // only with this value; "": with every value that is not empty, false or 0
    [[nodiscard]] bool has(const std::string& value_of_flag) const;
  };
  using NamedValue = std::pair<std::string, std::string>;  // a name of a flag that was given, and its value
  void read_words(const std::vector<std::string>& arguments);
  ArgumentParser& add(std::string name, Target target, std::string help);
  Row* find(std::string_view name);
  [[nodiscard]] const Foreign* find_foreign(std::string_view name) const;
  // Remembers a flag of another program. Does nothing for other flags.
  void note_foreign(const std::string& name, const std::string& value);
  // Remembers the flags of other programs in a file, and adds its unknown keys to the mistakes.
  void note_keys(const JsonObject& file, std::vector<std::string>& mistakes);
  // Throws a UsageError of these mistakes and the absent flags, if there are any.
  void report(std::vector<std::string> mistakes) const;
  NamedValue meaning_of(const GivenOption& given);
  // The flag that the override means. UsageError if the word is none.
  [[nodiscard]] NamedValue override_of(const std::string& word) const;
  void require_one_value(const std::vector<NamedValue>& given);
  void read_value(const JsonObject& json, const std::string& key);
  [[nodiscard]] std::vector<OptionSyntax> syntax() const;
  [[nodiscard]] JsonObject open_file(const std::string& path) const;
  [[nodiscard]] std::vector<std::string> known_keys() const;
  void read_file(const JsonObject& json);
  // The values of the file that flags of the command line exclude get their defaults.
  void reset_excluded(const std::vector<NamedValue>& given);
  static void reset(Row& row);
  // `name` is the one in errors.
  static void assign(Row& row, const std::string& value, const std::string& name);
  static std::string value_text(const Target& target);

  std::string program_;
  std::string about_;
  std::string group_;
  std::vector<Row> rows_;
  std::vector<std::pair<std::string, std::string>> aliases_;         // name, and the flag that it means
  std::vector<std::pair<std::string, std::string>> override_names_;  // name, and the flag that it means
  std::vector<std::pair<Exclusive, Exclusive>> exclusions_;          // the first excludes the second
  std::vector<Foreign> foreign_;
  std::vector<std::string> notes_;
  std::vector<std::string> absent_;  // the flags that parse() reports as absent
  bool has_overrides_ = false;
};

}  // namespace tessera
