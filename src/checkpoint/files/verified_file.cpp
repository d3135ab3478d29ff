// SPDX-License-Identifier: Apache-2.0
#include "verified_file.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.h"

namespace tessera {
namespace {

std::uint64_t block_count(std::uint64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }

std::vector<std::uint64_t> read_list(const std::string& path, const StoredFile& expected) {
  const InputFile file(list_path(path));
  const std::uint64_t count = block_count(expected.bytes);
  require(file.size() == count * sizeof(std::uint64_t),
          "{} has {} bytes, but the checksums of a file of {} bytes need {}", file.path(), file.size(), expected.bytes,
          count * sizeof(std::uint64_t));
  std::vector<std::uint64_t> out(count);
  file.read(0, std::as_writable_bytes(std::span(out)));
  require(checksum_text(checksum_of(std::as_bytes(std::span(out)))) == expected.checksum,
          "{} has another checksum than the manifest lists", file.path());
  return out;
}

}  // namespace

std::string list_path(const std::string& path) { return path + ".xxh3"; }

VerifiedFile::VerifiedFile(const std::string& path, const StoredFile& expected) : file_(path) {
  require(file_.size() == expected.bytes, "{} has {} bytes, the manifest lists {}", path, file_.size(), expected.bytes);
  require(expected.has_list, "the manifest lists no checksums of the blocks of {}", path);
  sums_ = read_list(path, expected);
}

void VerifiedFile::check(std::uint64_t first_block, std::span<const std::byte> blocks) const {
  for (std::uint64_t n = first_block; !blocks.empty(); ++n) {
    const auto one = blocks.first(std::min(kBlockBytes, blocks.size()));
    require(checksum_of(one) == sums_[n],
            "{}: damaged: the bytes {} to {} do not have the checksum with which they were saved", path(),
            n * kBlockBytes, n * kBlockBytes + one.size());
    blocks = blocks.subspan(one.size());
  }
}

std::span<const std::byte> VerifiedFile::block(std::uint64_t number) const {
  if (buffered_ != number) {
    buffered_ = UINT64_MAX;
    buffer_.resize(std::min<std::uint64_t>(kBlockBytes, size() - number * kBlockBytes));
    file_.read(number * kBlockBytes, buffer_);
    check(number, buffer_);
    buffered_ = number;
  }
  return buffer_;
}

void VerifiedFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  constexpr std::uint64_t kMostBlocks = 32;  // verified while they are in the second-level cache
  require(offset <= size() && into.size() <= size() - offset,
          "{}: the bytes {} to {} were requested, but the file has {}", path(), offset, offset + into.size(), size());
  while (!into.empty()) {
    const std::uint64_t number = offset / kBlockBytes;
    const std::uint64_t inside = offset % kBlockBytes;
    const bool to_end = into.size() == size() - offset;
    const std::uint64_t blocks = std::min(kMostBlocks, to_end ? block_count(into.size()) : into.size() / kBlockBytes);
    std::span<std::byte> part;
    if (inside == 0 && blocks > 0) {
      part = into.first(std::min<std::uint64_t>(into.size(), blocks * kBlockBytes));
      file_.read(offset, part);
      check(number, part);
    } else {
      const auto rest = block(number).subspan(inside);
      part = into.first(std::min(into.size(), rest.size()));
      std::memcpy(part.data(), rest.data(), part.size());
    }
    offset += part.size();
    into = into.subspan(part.size());
  }
}

void VerifiedFile::verify() const {
  std::vector<std::byte> buffer(32 * kBlockBytes);
  for (std::uint64_t offset = 0; offset < size(); offset += buffer.size())
    read(offset, std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), size() - offset)));
}

}  // namespace tessera
