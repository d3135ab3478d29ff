// SPDX-License-Identifier: Apache-2.0
// Files that are written from the first to the last byte, with their checksums.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "manifest.h"
#include "tessera/base/checksum.h"
#include "tessera/base/random_access.h"

namespace tessera {

/// Writes parts one after the other to a new file.
class StreamWriter {
 public:
  /// With `has_list`, finish() also writes the list of the checksums of the blocks (VerifiedFile). `expected_bytes` of the
  /// disk are reserved.
  StreamWriter(const std::string& path, bool has_list, std::uint64_t expected_bytes = 0);
  void add(std::span<const std::byte> bytes);
  /// Adds `count` bytes: calls `fill(done, into)` for parts of less than a megabyte, the first of which has `done` = 0.
  template <class Fill>
  void add(std::size_t count, Fill&& fill) {
    for (std::size_t done = 0; done < count;) {
      const std::span<std::byte> part = free_part(count - done);
      fill(done, part);
      used_ += part.size();
      done += part.size();
    }
  }
  /// Waits until the data is on the disk. The list gets its name after that, so a file with a list is complete.
  StoredFile finish();

 private:
  std::span<std::byte> free_part(std::size_t most);
  void flush();

  std::string path_;
  bool has_list_;
  OutputFile file_;
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::span<std::byte> buffer_;
  std::size_t used_ = 0;
  std::uint64_t written_ = 0;
  Checksum sum_;                       // of the file, without a list
  std::vector<std::uint64_t> blocks_;  // checksums
};

}  // namespace tessera
