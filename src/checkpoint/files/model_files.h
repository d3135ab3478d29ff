// SPDX-License-Identifier: Apache-2.0
// The safetensors files of a model folder, and their index.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/tensor/safetensors.h"

namespace tessera {

struct ModelFile {
  std::string name;                  // model-00001-of-00002.safetensors
  std::vector<std::size_t> tensors;  // numbers of the variables in it
  std::vector<std::size_t> entries;  // for each of them its first tensor in the header
  SafetensorsHeader header;
  /// The place in the file of the variable number `i` of `tensors`. If it has parts, they follow each other.
  [[nodiscard]] std::uint64_t begin_of(std::size_t i) const {
    return header.data_begin + header.tensors[entries[i]].begin;
  }
};

/// Divides variables, which may have parts (part_names.h), into files of at most `most_bytes`, unless a single variable is larger.
std::vector<ModelFile> divide_into_files(const std::vector<std::pair<std::string, Type>>& tensors,
                                         std::int64_t most_bytes);
/// The path of a file until all files are complete.
std::string partial_path(const std::string& folder, const ModelFile& file);
/// Creates the folder and the partial files, with headers and space for the data.
void create_files(const std::string& folder, const std::vector<ModelFile>& files);
/// Gives the files their names, writes the index if there are several, and deletes files of an earlier save.
void publish_files(const std::string& folder, const std::vector<ModelFile>& files);

}  // namespace tessera
