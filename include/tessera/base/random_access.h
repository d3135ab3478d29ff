// SPDX-License-Identifier: Apache-2.0
// Files that are read or written at given offsets, so that several ranks can work on one file. Errors name the rank,
// the host and the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera {

/// Bytes that are read in parts.
class ByteSource {
 public:
  ByteSource() = default;
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  [[nodiscard]] virtual const std::string& path() const = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Fills `into` with the bytes from `offset`. Error if the file ends before `into` is full.
  virtual void read(std::uint64_t offset, std::span<std::byte> into) const = 0;
};

/// The blocks that hash_of_samples() reads: `count` blocks of `bytes` bytes.
struct SampleBlocks {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};
/// Returns a hash of blocks that are spread evenly over the `size` bytes from `begin`, or of all bytes if the blocks
/// cover them. Requires at least two blocks.
std::uint64_t hash_of_samples(const ByteSource& source, std::uint64_t begin, std::uint64_t size, SampleBlocks blocks);

/// A file that is read in parts. It stays readable if another process deletes or replaces it. Several threads may read.
class InputFile final : public ByteSource {
 public:
  /// Error if the file does not exist or cannot be read.
  explicit InputFile(std::string path);
  ~InputFile() override;

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, std::span<std::byte> into) const override;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// A file that is written in parts, by one or several processes.
class OutputFile {
 public:
  enum class Mode { kCreate, kCreateUncached, kExisting };
  /// kCreate replaces an existing file by an empty one. kExisting opens an existing file; error if there is none.
  /// kCreateUncached is kCreate with writes that bypass the page cache, because these take hardly any processor time.
  /// It applies to writes whose offset, size and address are multiples of kDirectAlignment, if the file system supports
  /// it.
  OutputFile(std::string path, Mode mode);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Reserves space for `bytes` bytes on the disk, so that a full disk is an error before data is written.
  void resize(std::uint64_t bytes);
  /// Writes the bytes at `offset`. Errors name the path, such as a full disk.
  void write(std::uint64_t offset, std::span<const std::byte> from);
  /// Waits until the data is on the disk, and closes the file.
  void finish();

 private:
  void use_page_cache();

  std::string path_;
  int descriptor_ = -1;
  bool is_direct_ = false;
};
inline constexpr std::size_t kDirectAlignment = 4096;

/// Renames a file or folder to PATH.replaced, or to PATH.replaced2, … if there is one already. Returns the new name.
std::string set_aside(const std::string& path);

/// Renames a file or folder, and waits until the new name is on the disk. For a folder, also waits for the names in it.
/// If `to` exists, it is replaced atomically: at every moment `to` is the old or the new file or folder. An old folder
/// is then deleted. If the file system cannot exchange folders (NFS), the old folder is deleted before the rename.
void commit_rename(const std::string& from, const std::string& to);

/// The bytes that the current rank has read through InputFile. For tests and reports.
std::uint64_t bytes_read_from_files();

}  // namespace tessera
