// SPDX-License-Identifier: Apache-2.0
// Files of named arrays in the safetensors format (https://github.com/huggingface/safetensors): 8 bytes with the
// length of the header, a JSON header, raw little-endian data.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/tensor/literal.h"

namespace tessera {

struct SafetensorsFile {
  std::vector<std::pair<std::string, Literal>> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;

  /// Null if no tensor has this name.
  [[nodiscard]] const Literal* find(const std::string& name) const;
};

/// Reads a file. Errors name the file and the problem: too short, header not JSON, unknown dtype, offsets that
/// overlap, leave gaps or do not fit the shape.
SafetensorsFile read_safetensors(const std::string& path);
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name = "<bytes>");

void write_safetensors(const std::string& path, const SafetensorsFile& file);
std::vector<std::byte> print_safetensors(const SafetensorsFile& file);

}  // namespace tessera
