// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "file_errors.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"

namespace tessera {
namespace {

std::string reason_text(int error) { return std::generic_category().message(error); }

// "No such file or directory" would be confusing: the user sees the link.
std::string reason_text(const std::string& path, int error) {
  const std::string link = error == ENOENT ? dangling_link_text(path) : "";
  return link.empty() ? reason_text(error) : link;
}

// Returns "rank 3 on host node7 cannot", or "cannot" in a job of one rank.
std::string who() {
  const RankContext& context = RankContext::current();
  if (context.rank_count() == 1) return "cannot";
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("rank {} on host {} cannot", context.rank(), host.data());
}

// Closes a file descriptor at the end of a scope.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// Opens a regular file (or pipe) for reading. Returns 0 and sets `descriptor`, or returns the error number.
int open_to_read(const std::string& path, int& descriptor) {
  descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  if (descriptor < 0) return errno;
  struct stat status {};
  const bool is_folder = fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode);
  return is_folder ? EISDIR : 0;
}

// Writes all of `content`. Returns 0 or the error number.
int put_bytes(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t put = write(descriptor, content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(put));
  }
  return 0;
}

// Opens the file with `flags`, creates it if it does not exist, and writes. Returns 0 or the error number.
int put_content(const std::string& path, int flags, std::string_view content) {
  flags |= O_WRONLY | O_CREAT | O_CLOEXEC;
  const int descriptor = open(path.c_str(), flags, 0666);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  if (descriptor < 0) return errno;
  const int error = put_bytes(descriptor, content);
  // Some file systems report a full disk only here.
  const int closing_error = close(descriptor) == 0 ? 0 : errno;
  return error != 0 ? error : closing_error;
}

// Returns the path of the temporary file that is later renamed to `path`.
std::string temporary_beside(const std::string& path) {
  return fmt::format("{}.tmp{}.{}", path, getpid(), RankContext::current().rank());
}

// Returns 0 if the file can be read, else the error number. Only regular files are opened: the first reader that opens a
// pipe may be the only one that receives its content.
int reason_unreadable(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return access(path.c_str(), R_OK) == 0 ? 0 : errno;
  int descriptor = -1;
  const int error = open_to_read(path, descriptor);
  const File file(descriptor);
  return error;
}

}  // namespace

void fail_io(std::string_view verb, std::string_view path, int error) {
  fail_io(verb, path, reason_text(std::string(path), error));
}

void fail_io(std::string_view verb, std::string_view path, std::string_view reason) {
  throw FileError(fmt::format("{} {} {}: {}", who(), verb, path, reason));
}

std::string why_unreadable(const std::string& path) {
  const int error = reason_unreadable(path);
  return error == 0 ? "" : fmt::format("{} read {}: {}", who(), path, reason_text(path, error));
}

void check_readable(const std::string& path) {
  const std::string reason = why_unreadable(path);
  if (!reason.empty()) throw FileError(reason);
}

std::string read_file(const std::string& path) {
  int descriptor = -1;
  const int error = open_to_read(path, descriptor);
  const File file(descriptor);
  if (error != 0) fail_io("read", path, error);
  std::string out;
  std::vector<char> chunk(1 << 16);
  while (true) {
    const ssize_t got = read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_io("read", path, errno);
    if (got == 0) return out;
    out.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

bool looks_like_path(std::string_view word) { return word.find_first_of("/.") != std::string_view::npos; }

bool is_stream(const std::string& path) {
  if (path.starts_with("/dev/") || path.starts_with("/proc/")) return true;
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

std::string dangling_link_text(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path begin;
  for (const fs::path& part : fs::path(path)) {
    begin /= part;
    if (fs::is_symlink(begin, ignored) && fs::status(begin, ignored).type() == fs::file_type::not_found)
      return fmt::format("{} is a symbolic link to {}, which does not exist", begin.string(),
                         target_of_links(begin.string()));
  }
  return "";
}

std::string target_of_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the system
  std::filesystem::path out = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    const std::filesystem::path next = std::filesystem::read_symlink(out, error);
    if (error) break;
    out = out.parent_path() / next;
  }
  return out.string();
}

void write_file(const std::string& path, std::string_view content) {
  if (is_stream(path)) {
    if (const int error = put_content(path, O_APPEND, content); error != 0) fail_io("write", path, error);
    return;
  }
  const std::string target = target_of_links(path);
  const std::string temporary = temporary_beside(target);
  int error = put_content(temporary, O_TRUNC, content);
  if (error == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error == 0) return;
  unlink(temporary.c_str());
  fail_io("write", path, error);
}

void check_writable(const std::string& path) {
  struct stat status {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail_io("write", path, EISDIR);
  if (exists && is_stream(path)) {
    if (access(path.c_str(), W_OK) != 0) fail_io("write", path, errno);
    return;
  }
  const std::string temporary = temporary_beside(target_of_links(path));
  const int error = put_content(temporary, O_TRUNC, "");
  unlink(temporary.c_str());
  if (error != 0) fail_io("write", path, error);
}

bool create_new_file(const std::string& path) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0 && errno == EEXIST) return false;
  if (descriptor < 0) fail_io("write", path, errno);
  close(descriptor);
  return true;
}

void append_file(const std::string& path, std::string_view content) {
  const int error = put_content(path, O_APPEND, content);
  if (error != 0) fail_io("write", path, error);
}

void write_standard_output(std::string_view text) {
  errno = 0;
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!is_written) fail_io("write to", "standard output", errno);
}

int status_after_output(int status) {
  errno = 0;
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  const int error = errno;
  // A failure does not count if the user has closed standard error.
  const bool errors_are_written =
      std::fflush(stderr) == 0 && (std::ferror(stderr) == 0 || fcntl(STDERR_FILENO, F_GETFD) < 0);
  if (status != 0 || (is_written && errors_are_written)) return status;
  const char* stream = is_written ? "standard error" : "standard output";
  const std::string line =
      fmt::format("{} write to {}{}\n", who(), stream, error == 0 ? "" : ": " + reason_text(error));
  std::fputs(line.c_str(), is_written ? stdout : stderr);  // which may be lost too
  return 1;
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail_io("create the folder", path, error.value());
}

namespace {

// The options for whose files this rank has stopped writing.
struct GivenUp {
  std::set<std::string, std::less<>> names;
};

}  // namespace

void write_for_option(std::string_view name, const std::function<void()>& write) {
  auto& given_up = RankContext::current().get<GivenUp>().names;
  if (given_up.contains(name)) return;
  try {
    write();
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    given_up.emplace(name);
    log_warning("{}: {}; the run continues and writes nothing more there", name, error.what());
  }
}

}  // namespace tessera
