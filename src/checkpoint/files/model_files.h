// SPDX-License-Identifier: Apache-2.0
// The safetensors files of a model folder, and their index.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

/// model.safetensors, or model-00001-of-00003.safetensors with any numbers. Other files belong to the user.
bool is_model_file(std::string_view name);
/// Divides variables, which may have parts (part_names.h), into files of at most `most_bytes`, unless a single variable is larger.
std::vector<ModelFile> divide_into_files(const std::vector<std::pair<std::string, Type>>& tensors,
                                         std::int64_t most_bytes);
/// The path of a file until all files are complete.
std::string partial_path(const std::string& folder, const ModelFile& file);
/// Creates the folder and the partial files, with headers and space for the data.
void create_files(const std::string& folder, const std::vector<ModelFile>& files);
/// Gives the files their names, writes the index if there are several, and deletes files of an earlier save. If an earlier
/// save has several files too, there is no index meanwhile: a reader must not take old and new files together.
void publish_files(const std::string& folder, const std::vector<ModelFile>& files);
/// Deletes the partial files of a save that has failed.
void remove_partial_files(const std::string& folder, const std::vector<ModelFile>& files);
/// Writes a small file as `path.partial`, and renames it when it is on the disk.
void write_document(const std::string& path, std::string_view text);

}  // namespace tessera
