// SPDX-License-Identifier: Apache-2.0
// Lines on standard error that are not errors. TESSERA_LOG_LEVEL is the least important level that is printed.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string_view>

namespace tessera {

/// The importance of a line, in increasing order.
enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

/// True if the current rank prints lines of this level (TESSERA_LOG_LEVEL).
bool is_logged(LogLevel level);
/// True on rank 0, which prints messages that are equal on all ranks.
bool is_rank_zero();
/// Prints one or more lines in one write, so that lines of several ranks do not mix. Prints nothing if the level is
/// not logged.
void log_line(LogLevel level, std::string_view text);

/// Prints a line that starts with `warning: `.
template <class... Args>
void log_warning(fmt::format_string<const Args&...> format, const Args&... args) {
  if (is_logged(LogLevel::kWarning)) log_line(LogLevel::kWarning, "warning: " + fmt::format(format, args...));
}
/// The same, but only rank 0 prints the warning. For a warning that is equal on all ranks, such as a problem in a file
/// that all of them read.
template <class... Args>
void log_shared_warning(fmt::format_string<const Args&...> format, const Args&... args) {
  if (is_rank_zero()) log_warning(format, args...);
}
/// Prints a line for debugging.
template <class... Args>
void log_debug(fmt::format_string<const Args&...> format, const Args&... args) {
  if (is_logged(LogLevel::kDebug)) log_line(LogLevel::kDebug, fmt::format(format, args...));
}

}  // namespace tessera
