// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/random_access.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <vector>

#include "file_errors.h"
#include "tessera/base/error.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

struct BytesRead {
  std::atomic<std::uint64_t> count = 0;  // several threads of a rank may read
};

// The kernel transfers at most about 2 GiB in a call.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

// A process may raise its limit of open files, which is 1024 on many systems. A checkpoint of a large job has more.
bool allow_most_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace

std::uint64_t hash_of_samples(const ByteSource& source, std::uint64_t begin, std::uint64_t size, SampleBlocks blocks) {
  ensure(blocks.count > 1 && blocks.bytes > 0, "hash_of_samples needs two blocks");
  const bool is_complete = size / blocks.count <= blocks.bytes;
  const std::uint64_t each = is_complete ? std::min(size, blocks.bytes) : blocks.bytes;
  const std::uint64_t count = each == 0 ? 0 : is_complete ? (size + each - 1) / each : blocks.count;
  std::vector<std::byte> block(each);
  std::uint64_t hash = hash_mix(0, size);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t last = size - each;
    const std::uint64_t start = is_complete ? std::min(i * each, last) : i + 1 == count ? last : last / (count - 1) * i;
    source.read(begin + start, block);
    hash = hash_mix(hash, hash_bytes(block.data(), block.size()));
  }
  return hash;
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK, this would wait for the writer of a pipe.
  const auto try_open = [&] { return open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); };  // NOLINT(*-vararg)
  descriptor_ = try_open();
  if (descriptor_ < 0 && errno == EMFILE && allow_most_open_files()) descriptor_ = try_open();
  if (descriptor_ < 0) fail_io("read", path_, errno);
  struct stat status {};
  const int error = fstat(descriptor_, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
  if (error == 0 && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  close(descriptor_);
  if (error != 0) fail_io("read", path_, error);
  fail_io("read", path_, "it is not a regular file");
}

InputFile::~InputFile() { close(descriptor_); }

void InputFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  RankContext::current().get<BytesRead>().count += into.size();
  while (!into.empty()) {
    const std::size_t wanted = std::min(into.size(), kMostAtOnce);
    const ssize_t got = pread(descriptor_, into.data(), wanted, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_io("read", path_, errno);
    require(got > 0, "{}: the file ends at byte {}, but bytes {} to {} are needed; it is truncated", path_, offset,
            offset, offset + into.size());
    offset += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

OutputFile::OutputFile(std::string path, Mode mode) : path_(std::move(path)) {
  const int flags = O_WRONLY | O_CLOEXEC | (mode == Mode::kExisting ? 0 : O_CREAT | O_TRUNC);
  is_direct_ = mode == Mode::kCreateUncached;
  // NOLINTBEGIN(cppcoreguidelines-pro-type-vararg)
  if (is_direct_) descriptor_ = open(path_.c_str(), flags | O_DIRECT, 0666);
  is_direct_ = is_direct_ && descriptor_ >= 0;  // tmpfs, for example, cannot
  if (descriptor_ < 0) descriptor_ = open(path_.c_str(), flags, 0666);
  // NOLINTEND(cppcoreguidelines-pro-type-vararg)
  if (descriptor_ < 0) fail_io("write", path_, errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

namespace {

// Calls a function of the system again if a signal has interrupted it. Returns 0 or the error number.
template <class F>
int error_of(F&& call) {
  while (call() != 0)
    if (errno != EINTR) return errno;
  return 0;
}

}  // namespace

void OutputFile::resize(std::uint64_t bytes) {
  const auto size = static_cast<off_t>(bytes);
  if (const int error = error_of([&] { return ftruncate(descriptor_, size); }); error != 0)
    fail_io("write", path_, error);
  if (bytes == 0) return;
  // Not all file systems can reserve space. posix_fallocate() would then write every block.
  const int error = error_of([&] { return fallocate(descriptor_, 0, 0, size); });
  if (error != 0 && error != EOPNOTSUPP && error != ENOSYS) fail_io("write", path_, error);
}

void OutputFile::use_page_cache() {
  is_direct_ = false;
  const int flags = fcntl(descriptor_, F_GETFL);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  if (flags < 0 || fcntl(descriptor_, F_SETFL, flags & ~O_DIRECT) < 0) fail_io("write", path_, errno);
}

void OutputFile::write(std::uint64_t offset, std::span<const std::byte> from) {
  const auto address = reinterpret_cast<std::uintptr_t>(from.data());
  if (is_direct_ && (offset | from.size() | address) % kDirectAlignment != 0) use_page_cache();
  while (!from.empty()) {
    const ssize_t put =
        pwrite(descriptor_, from.data(), std::min(from.size(), kMostAtOnce), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EINVAL && is_direct_) {  // the file system needs another alignment
      use_page_cache();
      continue;
    }
    if (put < 0) fail_io("write", path_, errno);
    offset += static_cast<std::uint64_t>(put);
    from = from.subspan(static_cast<std::size_t>(put));
  }
}

void OutputFile::finish() {
  int error = error_of([&] { return fsync(descriptor_); });
  const int closed = close(descriptor_);
  descriptor_ = -1;
  if (error == 0 && closed != 0) error = errno;
  if (error != 0) fail_io("write", path_, error);
}

namespace {

// So that tests can end a process in this moment.
void wait_around_rename() {
  if (const auto delay = options().integer("TESSERA_RENAME_DELAY"); delay > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
}

// Waits until the names in a folder are on the disk.
void sync_folder(const std::string& folder) {
  const int descriptor =
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  if (descriptor < 0) fail_io("write", folder, errno);
  const int error = error_of([&] { return fsync(descriptor); });
  close(descriptor);
  if (error != 0 && error != EINVAL) fail_io("write", folder, error);  // EINVAL: this file system cannot
}

}  // namespace

std::string set_aside(const std::string& path) {
  std::string out = path + ".replaced";
  for (int i = 2; std::filesystem::exists(out); ++i) out = fmt::format("{}.replaced{}", path, i);
  if (std::rename(path.c_str(), out.c_str()) != 0) fail_io("write", path, errno);
  return out;
}

void commit_rename(const std::string& from, const std::string& to) {
  if (std::filesystem::is_directory(from)) sync_folder(from);
  wait_around_rename();
  const bool replaces = std::filesystem::is_directory(to);
  ensure(!std::filesystem::path(from).lexically_normal().string().starts_with(
             (std::filesystem::path(to) / "").lexically_normal().string()),
         "{} would replace the folder that it is in", from);
  if (!replaces || renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    if (replaces && errno != EINVAL && errno != ENOSYS) fail_io("write", to, errno);
    // NFS cannot exchange folders. The old one stays complete under another name until the new one is in its place.
    const std::string old = replaces ? set_aside(to) : "";
    if (std::rename(from.c_str(), to.c_str()) != 0) {
      const int error = errno;
      if (replaces && std::rename(old.c_str(), to.c_str()) != 0) fail_io("write", to, errno);
      fail_io("write", to, error);
    }
    std::error_code ignored;
    if (replaces) std::filesystem::remove_all(old, ignored);
  }
  wait_around_rename();
  const auto parent = std::filesystem::path(to).parent_path();
  sync_folder(parent.empty() ? "." : parent.string());
  std::error_code ignored;
  if (replaces) std::filesystem::remove_all(from, ignored);
}

std::uint64_t bytes_read_from_files() { return RankContext::current().get<BytesRead>().count; }

}  // namespace tessera
