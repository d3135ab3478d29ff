// SPDX-License-Identifier: Apache-2.0
// Files of named arrays in the safetensors format (https://github.com/huggingface/safetensors): 8 bytes with the
// length of the header, a JSON header, raw little-endian data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/random_access.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// A tensor of a file: its type and the bytes [begin, end) of the data, which starts after the header.
struct SafetensorsEntry {
  std::string name;
  Type type;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// The header of a file. Tensors are in the order of their data, without gaps.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // the offset of the data in the file

  /// The header of a new file with tensors of these names and types. Error if two tensors have the same name, if a name
  /// is `__metadata__` or not UTF-8, or if the format does not have the element type.
  static SafetensorsHeader of(const std::vector<std::pair<std::string, Type>>& tensors,
                              std::map<std::string, std::string> metadata = {});
  /// Reads the header of a file, without the data. Errors: those of read_safetensors().
  static SafetensorsHeader from_file(const ByteSource& file);
  /// The first data_begin bytes of the file.
  [[nodiscard]] std::string str() const;
  /// The size of the complete file.
  [[nodiscard]] std::uint64_t file_bytes() const;
};

/// The content of a file.
struct SafetensorsFile {
  std::vector<std::pair<std::string, Literal>> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;

  /// Null if no tensor has this name.
  [[nodiscard]] const Literal* find(const std::string& name) const;
};

/// Reads a file. Errors name the file and the problem: too short, header not JSON, unknown dtype, offsets that
/// overlap, leave gaps or do not fit the shape.
SafetensorsFile read_safetensors(const std::string& path);
/// The same for bytes in memory. Errors call them `name`.
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name = "<bytes>");

/// Writes a file. Errors: those of SafetensorsHeader::of() and write_file().
void write_safetensors(const std::string& path, const SafetensorsFile& file);
/// The bytes of a file.
std::vector<std::byte> print_safetensors(const SafetensorsFile& file);

}  // namespace tessera
