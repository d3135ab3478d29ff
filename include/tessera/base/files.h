// SPDX-License-Identifier: Apache-2.0
// Files. Errors name the rank, the host and the path, and are FileErrors.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tessera/base/error.h"

namespace tessera {

/// Checks that `path` is a readable file. FileError: `rank 3 on host node7 cannot read data/train.txt: No such file or
/// directory`.
void check_readable(const std::string& path);
/// Returns "" if the file is readable, else the error text of check_readable(). Ranks use it to compare their results
/// before one of them throws.
std::string why_unreadable(const std::string& path);

/// Whether there is a file, a folder or a symbolic link of this name, also a link to nothing: a read then gives the
/// reason.
bool is_there(const std::string& path);
/// Returns `m is a symbolic link to /old/m, which does not exist` for the first part of a path that is such a link, or "".
std::string dangling_link_text(const std::string& path);

/// Calls `read`, which reads a file. Its errors become FileErrors.
template <class Read>
decltype(auto) reading_file(Read&& read) {
  try {
    return read();
  } catch (const InternalError&) {
    throw;
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    throw FileError(error.what());
  }
}

/// Returns all bytes of a file. Errors: those of check_readable().
std::string read_file(const std::string& path);
/// True if a word is a path, and not the name of something built in, such as a tokenizer: it contains a slash or a dot.
bool looks_like_path(std::string_view word);
/// True if a file with this path cannot be replaced: a device, a pipe, or a name in /dev or /proc (/dev/stdout).
bool is_stream(const std::string& path);
/// Returns the path of the file to which `path` leads after all symbolic links. The file need not exist.
std::string target_of_links(const std::string& path);
/// Writes a temporary file beside the file and renames it, so a reader sees either the old or the new content. If the
/// path is a symbolic link, its target is replaced, and the link remains. A stream is written directly. Errors name the
/// rank and the path.
void write_file(const std::string& path, std::string_view content);
/// Checks that write_file() would succeed now, and leaves no file. Errors: those of write_file().
void check_writable(const std::string& path);
/// Creates an empty file. Returns false if a file or folder of this name exists already. Other errors name the rank and
/// the path.
[[nodiscard]] bool create_new_file(const std::string& path);
/// Appends to a file, and creates it if it does not exist. Errors name the rank and the path.
void append_file(const std::string& path, std::string_view content);
/// Writes `text` to standard output in one write. The error gives the reason, such as a full disk.
void write_standard_output(std::string_view text);
/// Returns `status`. If data that was written to standard output or standard error was lost, prints a line on standard
/// error and returns 1. Must be the last call of main().
int status_after_output(int status);
/// Creates the folder and its parents. Errors name the rank and the path.
void make_folder(const std::string& path);

/// Calls `write`, which writes a file for the option `name`. After the first Error for this option, the rank prints a
/// warning, continues, and does not call `write` for the option again. Used for files that only report on a run or
/// accelerate the next one (TESSERA_DUMP_DIR, PT_XLA_DEBUG_FILE, XLA_METRICS_FILE, TESSERA_CACHE_DIR, --cache_dir).
void write_for_option(std::string_view name, const std::function<void()>& write);

}  // namespace tessera
