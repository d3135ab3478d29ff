// SPDX-License-Identifier: Apache-2.0
// Tables of verbs and their options, from which help and errors are generated.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/command_line.h"

namespace tessera::command {

/// Throws an Error unless the value is valid for the option (as typed, `--seed`). The command makes it a UsageError that
/// names the option.
using ValueCheck = std::function<void(std::string_view option, const std::string& value)>;
/// An integer from `least` to `most`.
ValueCheck integer_in_range(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());
ValueCheck one_of(std::vector<std::string> choices);
/// A number of bytes of at least 1, such as 16GB.
ValueCheck byte_count();

struct Option {
  std::string_view name;   // --name; "o" means -o
  std::string_view value;  // the placeholder in the help; "" for a switch
  std::string_view help;   // empty: an option that the command gives to itself; `--help` does not show it
  ValueCheck check{};      // null: any text is valid
  bool writes_file =
      false;  // the value names a file that must be writable before the work begins; "-" is standard output
  std::vector<std::string_view> also{};  // other words for it, such as -np
  bool repeats = false;                  // may be given several times
};
/// The option, which may be given several times.
Option repeated(Option option);

/// The values given on the command line, by the names of a verb's options.
class Arguments {
 public:
  /// The first input; for a verb that takes a program, its name.
  [[nodiscard]] const std::string& input() const { return inputs_.front(); }
  /// All inputs in order. Only verbs with `takes_several` or `takes_program` may have more than one.
  [[nodiscard]] const std::vector<std::string>& inputs() const { return inputs_; }
  [[nodiscard]] bool has(std::string_view name) const { return values_.contains(std::string(name)); }
  /// Returns the last value.
  [[nodiscard]] std::optional<std::string> value(std::string_view name) const;
  [[nodiscard]] std::string value_or(std::string_view name, std::string_view otherwise) const;
  /// Returns all values in order.
  [[nodiscard]] std::vector<std::string> values(std::string_view name) const;
  /// For an option with integer_in_range().
  [[nodiscard]] std::int64_t number_or(std::string_view name, std::int64_t otherwise) const;

 private:
  friend struct Verb;
  std::vector<std::string> inputs_;  // at least one if the verb needs an input
  std::map<std::string, std::vector<std::string>> values_;
};

struct Verb {
  std::string_view name;
  std::string_view about;  // one line
  std::string_view notes;  // below the options
  std::vector<Option> options;
  /// Returns the exit code.
  int (*run)(const Arguments&) = nullptr;
  std::string_view input = "IN.hlo";
  std::string_view input_meaning = "a file of HLO text, or - for standard input";
  bool takes_several = false;  // inputs
  bool takes_program = false;  // the words after the options, or after --, are a program and its arguments: the inputs
  std::string_view no_input_with{};  // the option with which there is no input
  bool needs_input = true;           // false: the input may be missing; if `input` is "", there is none

  /// Parses the words. Throws a UsageError unless all options are known and have valid values. Reads no files.
  [[nodiscard]] Arguments read(const std::vector<std::string>& words) const;
  [[nodiscard]] std::string help() const;
  /// The number of words before the program (or all), without `--`.
  [[nodiscard]] std::size_t option_count(const std::vector<std::string>& words) const;

 private:
  [[nodiscard]] const Option* option_of(std::string_view word) const;
};

/// Returns the verbs in the order of the help.
const std::vector<const Verb*>& verbs();
extern const Verb kPartition;
extern const Verb kOptimize;
extern const Verb kStats;
extern const Verb kCheck;
extern const Verb kRun;
extern const Verb kPrint;
extern const Verb kLaunch;
extern const Verb kHosts;
extern const Verb kCheckpointInspect;
extern const Verb kCheckpointVerify;
extern const Verb kCheckpointConsolidate;
extern const Verb kCheckpointReshard;
extern const Verb kCheckpointDiff;
extern const Verb kTokenize;
extern const Verb kTrace;
extern const Verb kVisualize;
extern const Verb kCalibrate;
extern const Verb kPlan;
extern const Verb kEnv;
extern const Verb kReport;
extern const Verb kDoctor;

inline constexpr int kGood = 0;
inline constexpr int kInputIsWrong = 1;
inline constexpr int kUsage = 2;
inline constexpr int kCheckFailed = 3;

/// The information about the build that a bug report should contain, one line each.
std::string version_text();

/// Runs `tessera WORDS…`. Prints errors to stderr and returns the exit code.
int run_command(const std::vector<std::string>& words);

}  // namespace tessera::command
