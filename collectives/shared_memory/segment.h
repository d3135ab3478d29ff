// SPDX-License-Identifier: Apache-2.0
// Anonymous memory that other processes of the node can map: a memfd, opened by peers through /proc. Nothing is left behind
// when its processes die, however they die.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::collectives {

/// What a peer needs to open a segment.
struct SegmentAddress {
  std::int32_t process = 0;
  std::int32_t descriptor = -1;
  std::uint64_t bytes = 0;
  std::uint64_t nonce =
      0;  // the first word of the segment: another process may have the same number in another container
};

class Segment {
 public:
  Segment() = default;
  /// A fresh segment of zeros but for the nonce; pages cost memory when first touched. Error with the reason if it fails.
  static Segment create(std::size_t bytes, const std::string& name);
  /// The same; an empty Segment with `reason` set where it fails.
  static Segment try_create(std::size_t bytes, const std::string& name, std::string& reason);
  /// A file that has no name, in memory if it can be, for systems without memfd; its bytes are allocated now.
  static Segment try_create_file(std::size_t bytes, std::string& reason);
  /// Memory of this process alone, of zeros: where ranks share none. Error if there is none left.
  static Segment create_private(std::size_t bytes);
  /// A peer's; an empty Segment with `reason` set where that is not permitted.
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
  /// Maps a part of it a second time, to be read or also written, over whatever is at `where`. Needs the descriptor. False where the system
  /// refuses.
  [[nodiscard]] bool map_at(std::byte* where, std::int64_t offset, std::size_t bytes, bool writable) const;
  /// Once all peers have opened it and nothing more is to be mapped; keeps the number of open files low.
  void close_descriptor();

 private:
  void swap(Segment& other) noexcept;
  static Segment finish(int descriptor, std::size_t bytes, std::string& reason);
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace tessera::collectives
