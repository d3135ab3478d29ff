// SPDX-License-Identifier: Apache-2.0
// Anonymous memory that other processes of the node can map: a memfd, which peers open through /proc. The system frees
// it when the processes end, however they end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::collectives {

/// The information that a peer needs to open a segment.
struct SegmentAddress {
  std::int32_t process = 0;
  std::int32_t descriptor = -1;
  std::uint64_t bytes = 0;
  std::uint64_t nonce =
      0;  // the first word of the segment; identifies it if processes in several containers have the same number
};

class Segment {
 public:
  Segment() = default;
  /// A new segment of zeros except for the nonce. Pages take memory when they are first accessed. Throws an Error with
  /// the reason on failure.
  static Segment create(std::size_t bytes, const std::string& name);
  /// The same, but returns an empty Segment and sets `reason` on failure.
  static Segment try_create(std::size_t bytes, const std::string& name, std::string& reason);
  /// A file without a name, in memory if possible, for systems without memfd. Its bytes are allocated now.
  static Segment try_create_file(std::size_t bytes, std::string& reason);
  /// Zeroed memory of this process alone, for ranks that share no memory. Throws an Error if no memory is left.
  static Segment create_private(std::size_t bytes);
  /// The segment of a peer. Returns an empty Segment and sets `reason` if access is not permitted.
  static Segment open(const SegmentAddress& address, std::string& reason);

  Segment(Segment&& other) noexcept { swap(other); }
  Segment& operator=(Segment&& other) noexcept {
    Segment old;
    old.swap(*this);
    swap(other);
    return *this;
  }
  ~Segment();

  [[nodiscard]] bool is_open() const { return data_ != nullptr; }
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] SegmentAddress address() const;
  /// Maps a part of the segment again, for reading or also writing, over the memory at `where`. Requires the
  /// descriptor. Returns false if the system refuses.
  [[nodiscard]] bool map_at(std::byte* where, std::int64_t offset, std::size_t bytes, bool writable) const;
  /// Call when all peers have opened the segment and no further mappings are needed. This limits the number of open
  /// files.
  void close_descriptor();

 private:
  void swap(Segment& other) noexcept;
  static Segment finish(int descriptor, std::size_t bytes, std::string& reason);
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace tessera::collectives
