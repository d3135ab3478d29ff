// SPDX-License-Identifier: Apache-2.0
// Files, with errors that say which rank on which host could not do what.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tessera {

/// Error `rank 3 on host node7 cannot read data/train.txt: No such file or directory` unless it is a file that can be read.
void check_readable(const std::string& path);
/// The same as a value: "" when readable, else the error's text. For checks whose outcome the ranks compare first.
std::string why_unreadable(const std::string& path);

/// All bytes of a file; the error is that of check_readable.
std::string read_file(const std::string& path);
/// Writes a temporary file beside `path` and renames it: a reader sees the old content or the new, never half. A device or pipe
/// (/dev/null) is written to as it is. Error naming rank and path.
void write_file(const std::string& path, std::string_view content);
/// Error, as write_file's would be, unless the file could be written now; leaves no trace.
void check_writable(const std::string& path);
/// Adds to the end of a file, which it makes where there is none. Error naming rank and path.
void append_file(const std::string& path, std::string_view content);
/// Writes all of `text` to standard output, at once. Error naming the reason, as when the disk is full.
void write_standard_output(std::string_view text);
/// `status`; or 1, with a line on standard error, when something that was written to standard output or standard error did not
/// arrive there. The last call of main().
int status_after_output(int status);
/// Makes the folder and those above it. Error naming rank and path.
void make_folder(const std::string& path);

/// For files that only report on a run or make the next one faster (TESSERA_DUMP_DIR, PT_XLA_DEBUG_FILE, XLA_METRICS_FILE,
/// TESSERA_CACHE_DIR): the run goes on without them. Calls `write`; once that has thrown an Error for the option `name`, the rank has
/// warned of it and `write` is called no more.
void write_for_option(std::string_view name, const std::function<void()>& write);

}  // namespace tessera
