// SPDX-License-Identifier: Apache-2.0
// Where the parts of the tensors of a checkpoint are in its files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "manifest.h"
#include "tessera/base/random_access.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {

/// A part whose elements are in the file from byte `offset` on.
struct Piece {
  std::shared_ptr<const ByteSource> file;
  std::uint64_t offset = 0;
  Region region;
};

/// Opens files when they are first needed, each once, as a VerifiedFile. Errors name the file: it is missing, has another
/// size, or does not contain what the manifest lists.
class PieceFiles {
 public:
  explicit PieceFiles(std::shared_ptr<const CheckpointManifest> manifest) : manifest_(std::move(manifest)) {}
  /// The pieces of a tensor.
  std::vector<Piece> pieces_of(const std::string& name);
  /// Those that have elements of a region. A reader of a shard opens only their files: a checkpoint may have thousands.
  std::vector<Piece> pieces_of(const std::string& name, const Region& wanted);

 private:
  struct OpenFile {
    std::shared_ptr<const ByteSource> file;
    SafetensorsHeader header;
    std::unordered_map<std::string_view, const SafetensorsEntry*> tensors;  // of the header, by name
  };
  const OpenFile& open(const std::string& name);
  std::shared_ptr<const CheckpointManifest> manifest_;
  std::map<std::string, OpenFile> open_;
};

}  // namespace tessera
