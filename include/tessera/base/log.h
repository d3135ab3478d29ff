// SPDX-License-Identifier: Apache-2.0
// What Tessera says on standard error besides errors; TESSERA_LOG_LEVEL says from which importance on.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string_view>

namespace tessera {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

/// Whether the current rank's TESSERA_LOG_LEVEL lets lines of this level through.
bool is_logged(LogLevel level);
/// Whether the current rank is the one that prints what all ranks would print alike.
bool speaks_for_job();
/// The line, or lines, in one write, so that ranks do not cut each other short. Nothing when the level is not logged.
void log_line(LogLevel level, std::string_view text);

/// A line with `warning: ` before it.
template <class... Args>
void log_warning(fmt::format_string<const Args&...> format, const Args&... args) {
  if (is_logged(LogLevel::kWarning)) log_line(LogLevel::kWarning, "warning: " + fmt::format(format, args...));
}
/// The same of what every rank of a job finds alike, such as a flaw of the text that all of them read: rank 0 prints it.
template <class... Args>
void log_shared_warning(fmt::format_string<const Args&...> format, const Args&... args) {
  if (speaks_for_job()) log_warning(format, args...);
}
/// A line for those who look for a fault.
template <class... Args>
void log_debug(fmt::format_string<const Args&...> format, const Args&... args) {
  if (is_logged(LogLevel::kDebug)) log_line(LogLevel::kDebug, fmt::format(format, args...));
}

}  // namespace tessera
