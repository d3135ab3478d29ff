// SPDX-License-Identifier: Apache-2.0
// Files with a list of checksums, so that a reader of some bytes verifies these bytes and not the complete file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "manifest.h"
#include "tessera/base/checksum.h"
#include "tessera/base/random_access.h"

namespace tessera {

/// Each block of this many bytes has a checksum; the last block may be shorter.
inline constexpr std::size_t kBlockBytes = std::size_t{16} << 10;
/// The file with the list for the file `path`: 8 bytes for each block, little-endian.
std::string list_path(const std::string& path);

/// Reads a file, and verifies the blocks that it reads. One thread reads.
class VerifiedFile final : public ByteSource {
 public:
  /// Error, naming the file, if the file or its list is missing or has another size or another checksum than `expected`.
  VerifiedFile(const std::string& path, const StoredFile& expected);

  [[nodiscard]] const std::string& path() const override { return file_.path(); }
  [[nodiscard]] std::uint64_t size() const override { return file_.size(); }
  /// Error, naming the bytes, if the content of a block has changed.
  void read(std::uint64_t offset, std::span<std::byte> into) const override;
  /// Reads and verifies all blocks.
  void verify() const;

 private:
  std::span<const std::byte> block(std::uint64_t number) const;
  void check(std::uint64_t first_block, std::span<const std::byte> blocks) const;

  InputFile file_;
  std::vector<std::uint64_t> sums_;
  mutable std::vector<std::byte> buffer_;  // the content of block buffered_
  mutable std::uint64_t buffered_ = UINT64_MAX;
};

}  // namespace tessera
