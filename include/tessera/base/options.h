// SPDX-License-Identifier: Apache-2.0
// Every environment variable Tessera looks at, in one table (src/base/options.cpp). A rank reads them once, at its first use of
// options(); tests and programs may set them by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class OptionType : std::uint8_t { kFlag, kInteger, kText, kList, kChoice };

/// One row of the table; docs/debugging.md shows it.
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
  /// The table's defaults overridden by the environment.
  Options();

  /// Error with the nearest known name when no row has this one, or when the value is not of the row's type.
  void set(std::string_view name, std::string_view value);
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  /// The number of the value in its row's list of choices.
  [[nodiscard]] std::size_t choice(std::string_view name) const;
  /// The parts between commas, without blanks.
  [[nodiscard]] std::vector<std::string> list(std::string_view name) const;
  /// `NAME=value` of everything that differs from its default, in table order.
  [[nodiscard]] std::string str() const;

  static const std::vector<OptionRow>& table();

 private:
  std::vector<std::string> values_;  // in table order
};

/// Those of the current rank.
Options& options();

/// One line per variable of the environment that looks like one of ours and has no effect: those that begin with TESSERA_, PT_XLA_
/// or XLA_METRICS_ and have no row, and those of the XRT runtime, whose work MPI does:
/// `unknown environment variable TESSERA_NUM_THREAD; did you mean "TESSERA_NUM_THREADS"?`.
std::vector<std::string> unknown_variables();
/// Logs them as warnings, on rank 0 only; for the start of a program.
void warn_of_unknown_variables();

/// The level of automatic advice: PT_XLA_DEBUG_LEVEL, or 100 when PT_XLA_DEBUG is set, else 0.
std::int64_t debug_level();

}  // namespace tessera
