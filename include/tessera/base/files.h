// SPDX-License-Identifier: Apache-2.0
// Files. Errors name the rank, the host and the path.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tessera {

/// Checks that `path` is a readable file. Error: `rank 3 on host node7 cannot read data/train.txt: No such file or
/// directory`.
void check_readable(const std::string& path);
/// Returns "" if the file is readable, else the text of that error. For checks whose results the ranks compare first.
std::string why_unreadable(const std::string& path);

/// Returns all bytes of a file. Errors as check_readable.
std::string read_file(const std::string& path);
/// Writes a temporary file in the folder of `path` and renames it, so a reader sees either the old or the new content.
/// A device or pipe (/dev/null) is written directly. Errors name rank and path.
void write_file(const std::string& path, std::string_view content);
/// Checks that write_file would succeed now, without leaving a file. Errors as write_file.
void check_writable(const std::string& path);
/// Appends to a file, and creates it if it does not exist. Error naming rank and path.
void append_file(const std::string& path, std::string_view content);
/// Writes `text` to standard output in one write. The error gives the reason, such as a full disk.
void write_standard_output(std::string_view text);
/// Returns `status`; or 1, with a line on standard error, if data written to standard output or standard error was
/// lost. Must be the last call of main().
int status_after_output(int status);
/// Creates the folder and its parents. Error naming rank and path.
void make_folder(const std::string& path);

/// For files that only report on a run or accelerate the next one (TESSERA_DUMP_DIR, PT_XLA_DEBUG_FILE,
/// XLA_METRICS_FILE, TESSERA_CACHE_DIR): the run continues without them. Calls `write`. After the first Error for the
/// option `name`, the rank prints a warning and does not call `write` for this option again.
void write_for_option(std::string_view name, const std::function<void()>& write);

}  // namespace tessera
