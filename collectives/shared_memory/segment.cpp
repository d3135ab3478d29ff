// SPDX-License-Identifier: Apache-2.0
#include "shared_memory/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::collectives {
namespace {

std::byte* map_shared(int descriptor, std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

}  // namespace

Segment Segment::create(std::size_t bytes, const std::string& name) {
  Segment out;
  out.descriptor_ = memfd_create(name.c_str(), MFD_CLOEXEC);
  require(out.descriptor_ >= 0, "no shared memory: memfd_create: {}", std::strerror(errno));
  require(ftruncate(out.descriptor_, static_cast<off_t>(bytes)) == 0, "no shared memory: ftruncate to {} bytes: {}",
          bytes, std::strerror(errno));
  out.data_ = map_shared(out.descriptor_, bytes);
  require(out.data_ != nullptr, "no shared memory: mmap of {} bytes: {}", bytes, std::strerror(errno));
  out.bytes_ = bytes;
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
  // A file that is shorter than announced would fault on access.
  const bool fits = fstat(descriptor, &status) == 0 && static_cast<std::uint64_t>(status.st_size) == address.bytes;
  out.data_ = fits ? map_shared(descriptor, address.bytes) : nullptr;
  out.bytes_ = address.bytes;
  ::close(descriptor);
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
