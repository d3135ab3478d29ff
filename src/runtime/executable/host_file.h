// SPDX-License-Identifier: Apache-2.0
// The file of a rank for values that a memory budget moves out of memory. The file is mapped, so that steps read and write it like
// memory; its pages leave the process after each of them, and the operating system writes them to the disk meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

class HostFile {
 public:
  /// Creates a file of `bytes` in the folder TESSERA_OFFLOAD_DIR (by default that of temporary files), and reserves its space on the disk. The file has no
  /// name, so that nothing remains after the process. Errors name the rank and the folder: the folder does not exist or is not
  /// writable, the disk is full.
  explicit HostFile(std::int64_t bytes);
  ~HostFile();
  HostFile(const HostFile&) = delete;
  HostFile& operator=(const HostFile&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

  // A range begins at a page (kPageAlignment) of the file.
  /// After the range was written: starts to write it to the disk, and removes it from the memory of the process.
  void end_write(const std::byte* begin, std::int64_t bytes) const;
  /// Starts to read the range from the disk.
  void prefetch(const std::byte* begin, std::int64_t bytes) const;
  /// After the range was read for the last time.
  void end_read(const std::byte* begin, std::int64_t bytes) const;

 private:
  std::int64_t bytes_;
  int descriptor_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace tessera
