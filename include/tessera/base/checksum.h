// SPDX-License-Identifier: Apache-2.0
// The XXH3 checksum (64 bits) of data that arrives in parts. https://github.com/Cyan4973/xxHash
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tessera {

/// A checksum that is computed while data arrives.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  /// Appends bytes to the data.
  void add(std::span<const std::byte> bytes);
  /// The checksum of all bytes that were added.
  [[nodiscard]] std::uint64_t value() const;
  /// The same, as 16 hexadecimal digits.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The XXH3 of one span.
std::uint64_t checksum_of(std::span<const std::byte> bytes);
/// A checksum as 16 hexadecimal digits.
std::string checksum_text(std::uint64_t sum);
/// The checksum of a file, read in pieces of a few megabytes. Errors: those of InputFile.
std::string checksum_of_file(const std::string& path);

}  // namespace tessera
