// SPDX-License-Identifier: Apache-2.0
// The content of a device array for another thread, which reads it while the rank continues to run programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace tessera {

/// The bytes that a device array had when DeviceArray::pin() was called. One other thread reads them. An executable
/// that overwrites the array first copies the bytes that were not read yet.
class PinnedContent {
 public:
  explicit PinnedContent(std::span<const std::byte> bytes) : bytes_(bytes) {}
  PinnedContent(const PinnedContent&) = delete;
  PinnedContent& operator=(const PinnedContent&) = delete;

  /// Copies the bytes from `offset` on. Successive calls must have increasing offsets, because bytes that were read are
  /// not preserved. Read less than a megabyte at a time, because a program that is about to overwrite the array waits
  /// for the read. Error if there was not enough memory for a copy.
  void read(std::size_t offset, std::span<std::byte> into);
  /// States that the bytes will not be read anymore.
  void release();
  /// Copies the bytes that were not read yet, because the memory will be overwritten. Returns their number.
  std::int64_t preserve() noexcept;

 private:
  enum class State : std::uint8_t { kInPlace, kCopied, kReleased, kLost };
  std::mutex mutex_;
  State state_ = State::kInPlace;
  std::span<const std::byte> bytes_;
  std::vector<std::byte> copy_;  // of the bytes from copied_from_ on
  std::size_t read_to_ = 0;      // the end of the last read
  std::size_t copied_from_ = 0;
};

}  // namespace tessera
