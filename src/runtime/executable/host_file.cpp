// SPDX-License-Identifier: Apache-2.0
#include "executable/host_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "tessera/base/error.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr mode_t kOnlyOwner = 0600;

// A file that disappears with its descriptor. Not every file system has O_TMPFILE.
int open_without_name(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kOnlyOwner);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return descriptor;
  std::string path = folder + "/tessera-offload-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

std::string offload_folder() {
  const std::string& given = options().text("TESSERA_OFFLOAD_DIR");
  return given.empty() ? std::filesystem::temp_directory_path().string() : given;
}

[[noreturn]] void fail_to_open(std::int64_t bytes, const std::string& folder, int reason) {
  fail("rank {} cannot reserve {} for offloaded values in {} (TESSERA_OFFLOAD_DIR): {}", RankContext::current().rank(),
       bytes_text(bytes), folder, std::generic_category().message(reason));
}

}  // namespace

HostFile::HostFile(std::int64_t bytes) : bytes_(bytes) {
  const std::string folder = offload_folder();
  descriptor_ = open_without_name(folder);
  if (descriptor_ < 0) fail_to_open(bytes, folder, errno);
  int failure = posix_fallocate(descriptor_, 0, bytes);
  if (failure == 0) {
    void* mapped = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (mapped != MAP_FAILED) {
      data_ = static_cast<std::byte*>(mapped);
      return;
    }
    failure = errno;
  }
  close(descriptor_);
  fail_to_open(bytes, folder, failure);
}

HostFile::~HostFile() {
  munmap(data_, static_cast<std::size_t>(bytes_));
  close(descriptor_);
}

// These calls only advise the system, so their failures have no effect on results.
void HostFile::end_write(const std::byte* begin, std::int64_t bytes) const {
  (void)sync_file_range(descriptor_, begin - data_, bytes, SYNC_FILE_RANGE_WRITE);
  end_read(begin, bytes);
}
void HostFile::prefetch(const std::byte* begin, std::int64_t bytes) const {
  (void)posix_fadvise(descriptor_, begin - data_, bytes, POSIX_FADV_WILLNEED);
}
void HostFile::end_read(const std::byte* begin, std::int64_t bytes) const {
  (void)madvise(data_ + (begin - data_), static_cast<std::size_t>(bytes), MADV_DONTNEED);
}

}  // namespace tessera
