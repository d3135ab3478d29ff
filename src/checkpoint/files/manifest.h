// SPDX-License-Identifier: Apache-2.0
// manifest.json of a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/regions.h"

namespace tessera {

inline constexpr const char* kManifestFile = "manifest.json";

/// A part of a tensor in the file of a rank.
struct TensorPart {
  std::string file;
  Region region;
};
struct StoredTensor {
  Type type;
  Dims exported_dims;  // the shape in model folders
  std::vector<TensorPart> parts;
};
struct StoredFile {
  std::uint64_t bytes = 0;
  std::string checksum;   // of the file, or of the list of the checksums of its blocks
  bool has_list = false;  // the list is in the file NAME.xxh3
};

struct CheckpointManifest {
  std::string folder;
  std::map<std::string, StoredTensor> tensors;  // GROUP/NAME
  std::map<std::string, StoredFile> files;
  std::map<std::string, std::string> classes{};  // of the objects with the states, by group, if they are known

  [[nodiscard]] std::string str() const;
  /// Of all checksums, names and shapes.
  [[nodiscard]] std::uint64_t hash() const { return hash_text(str()); }
  /// Error naming the file and the place that is wrong. The sums of the bytes of all tensors, and of all files, fit in 64 bits.
  static CheckpointManifest from_folder(const std::string& folder);
};

/// Whether a folder contains a manifest. Also true if it is a link to nothing, or if the system cannot tell, for example
/// because a disk fails; a read of the manifest then gives the reason.
bool may_have_manifest(const std::string& folder);

/// Checks that a folder exists and contains a manifest. The error names the newest checkpoint in the folder, or next to it.
void require_manifest(const std::string& folder);

/// `state-00001-of-00004.safetensors`
std::string state_file(int rank, int ranks);

}  // namespace tessera
