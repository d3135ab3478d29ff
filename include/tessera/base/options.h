// SPDX-License-Identifier: Apache-2.0
// Every environment variable that Tessera reads, in one table (src/base/options.cpp). A rank reads them once, when it
// first calls options(). Tests and programs may set them with Options::set().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The type of the value of an option. kList: texts separated by commas. kBytes: a size such as 2GB.
enum class OptionType : std::uint8_t { kFlag, kInteger, kText, kList, kChoice, kBytes };

/// One row of the table, which docs/reference/environment.md shows.
struct OptionRow {
  std::string_view name;
  OptionType type = OptionType::kText;
  std::string_view standard;  // the default, as text
  std::string_view meaning;
  std::string_view choices{};  // of kChoice: `debug,info,warning,error`
};

/// The options of a rank.
class Options {
 public:
  /// The defaults of the table, overridden by the environment. An empty environment variable counts as not set.
  Options();

  /// Error, with the nearest known name, if no row has this name; error if the value does not have the type of the
  /// row.
  void set(std::string_view name, std::string_view value);
  /// The value of an option, as text or in the type of its row. Error, with the nearest name, if no row has this name;
  /// InternalError if the row has another type.
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  /// The index of the value in the list of choices of its row.
  [[nodiscard]] std::size_t choice(std::string_view name) const;
  /// The parts between commas, without surrounding blanks.
  [[nodiscard]] std::vector<std::string> list(std::string_view name) const;
  /// Returns `NAME=value` for every option that differs from its default, in the order of the table.
  [[nodiscard]] std::string str() const;

  static const std::vector<OptionRow>& table();

 private:
  struct Value {
    std::string text;
    std::int64_t number = 0;  // of an integer; 0 or 1 of a flag; the index of a choice
  };
  std::vector<Value> values_;  // in table order
};

/// The options of the current rank.
Options& options();

/// Returns one line for each environment variable that is set and that Tessera ignores, although its name suggests an
/// effect. These are the variables that begin with TESSERA_, PT_XLA_ or XLA_METRICS_ and have no row, and the variables
/// of the XRT runtime, which MPI replaces. Example of a line:
/// `unknown environment variable TESSERA_NUM_THREAD; did you mean "TESSERA_NUM_THREADS"?`.
std::vector<std::string> unknown_variables();
/// Logs these lines as warnings on rank 0. Call it at the start of a program.
void warn_of_unknown_variables();

/// The level of automatic advice: 100 if PT_XLA_DEBUG is set, else PT_XLA_DEBUG_LEVEL.
std::int64_t debug_level();

}  // namespace tessera
