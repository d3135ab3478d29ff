// SPDX-License-Identifier: Apache-2.0
#include "shared_memory/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::collectives {
namespace {

std::byte* map_shared(int descriptor, std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

// Exceeding the limit of file sizes (ulimit -f) does not return an error; a signal would end the process.
int error_of_limit(std::size_t bytes) {
  rlimit limit{};
  const bool fits = getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
  return fits ? 0 : EFBIG;
}

}  // namespace

Segment Segment::create(std::size_t bytes, const std::string& name) {
  std::string reason;
  Segment out = try_create(bytes, name, reason);
  require(out.is_open(), "no shared memory: {}", reason);
  return out;
}

Segment Segment::try_create(std::size_t bytes, const std::string& name, std::string& reason) {
  const int descriptor = memfd_create(name.c_str(), MFD_CLOEXEC);
  int error = descriptor < 0 ? errno : error_of_limit(bytes);
  if (error == 0 && ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) error = errno;
  if (error == 0) return finish(descriptor, bytes, reason);
  reason =
      fmt::format("{} of {} bytes: {}", descriptor < 0 ? "memfd_create" : "ftruncate", bytes, std::strerror(error));
  if (descriptor >= 0) ::close(descriptor);
  return {};
}

// Allocates all bytes now; otherwise a full file system would end the process when a page is first accessed.
Segment Segment::try_create_file(std::size_t bytes, std::string& reason) {
  const char* given = std::getenv("TMPDIR");
  reason.clear();
  for (const char* directory : {"/dev/shm", given == nullptr ? "/tmp" : given}) {
    const int descriptor = ::open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    // posix_fallocate returns its error and does not set errno.
    int error = descriptor < 0 ? errno : error_of_limit(bytes);
    if (error == 0) error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
    if (error == 0) return finish(descriptor, bytes, reason);
    reason += fmt::format("{}a file of {} bytes in {}: {}", reason.empty() ? "" : ", ", bytes, directory,
                          std::strerror(error));
    if (descriptor >= 0) ::close(descriptor);
  }
  return {};
}

Segment Segment::create_private(std::size_t bytes) {
  Segment out;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(data != MAP_FAILED, "no memory: mmap of {} bytes: {}", bytes, std::strerror(errno));
  out.data_ = static_cast<std::byte*>(data);
  out.bytes_ = bytes;
  return out;
}

Segment Segment::finish(int descriptor, std::size_t bytes, std::string& reason) {
  Segment out;
  out.descriptor_ = descriptor;
  out.data_ = map_shared(descriptor, bytes);
  out.bytes_ = bytes;
  if (out.data_ == nullptr) {
    reason = fmt::format("mmap of {} bytes: {}", bytes, std::strerror(errno));
    return {};
  }
  std::uint64_t nonce = 0;
  if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) nonce = static_cast<std::uint64_t>(getpid());
  std::memcpy(out.data_, &nonce, sizeof nonce);
  return out;
}

Segment Segment::open(const SegmentAddress& address, std::string& reason) {
  Segment out;
  const auto path = fmt::format("/proc/{}/fd/{}", address.process, address.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) {
    reason = fmt::format("{}: {}", path, std::strerror(errno));
    return out;
  }
  struct stat status {};
  // Access to a file that is shorter than announced would fault.
  const bool fits = fstat(descriptor, &status) == 0 && static_cast<std::uint64_t>(status.st_size) == address.bytes;
  out.data_ = fits ? map_shared(descriptor, address.bytes) : nullptr;
  out.bytes_ = address.bytes;
  out.descriptor_ = descriptor;
  if (out.is_open() && out.address().nonce == address.nonce) return out;
  reason = fmt::format("{} is not the segment of that rank", path);
  return {};
}

Segment::~Segment() {
  if (data_ != nullptr) munmap(data_, bytes_);
  close_descriptor();
}

SegmentAddress Segment::address() const {
  std::uint64_t nonce = 0;
  std::memcpy(&nonce, data_, sizeof nonce);
  return {static_cast<std::int32_t>(getpid()), descriptor_, bytes_, nonce};
}

bool Segment::map_at(std::byte* where, std::int64_t offset, std::size_t bytes, bool writable) const {
  return mmap(where, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED | MAP_FIXED, descriptor_, offset) !=
         MAP_FAILED;
}

void Segment::close_descriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void Segment::swap(Segment& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
}

}  // namespace tessera::collectives
