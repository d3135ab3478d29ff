// SPDX-License-Identifier: Apache-2.0
#include "pieces.h"

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "verified_file.h"

namespace tessera {

const PieceFiles::OpenFile& PieceFiles::open(const std::string& name) {
  if (const auto found = open_.find(name); found != open_.end()) return found->second;
  const std::string path = manifest_->folder + "/" + name;
  const StoredFile& expected = manifest_->files.at(name);
  auto file = std::make_shared<const VerifiedFile>(path, expected);
  OpenFile& out = open_[name];
  out.header = SafetensorsHeader::from_file(*file);
  out.file = std::move(file);
  for (const SafetensorsEntry& entry : out.header.tensors) out.tensors[entry.name] = &entry;
  return out;
}

std::vector<Piece> PieceFiles::pieces_of(const std::string& name) {
  return pieces_of(name, complete_region(manifest_->tensors.at(name).type));
}

std::vector<Piece> PieceFiles::pieces_of(const std::string& name, const Region& wanted) {
  const StoredTensor& tensor = manifest_->tensors.at(name);
  std::vector<Piece> out;
  for (const TensorPart& part : tensor.parts) {
    if (intersection(part.region, wanted).element_count() == 0) continue;
    const OpenFile& in = open(part.file);
    const auto found = in.tensors.find(name);
    require(found != in.tensors.end(), "{} does not contain {}", in.file->path(),
            [&] { return escape_controls(name); });
    const SafetensorsEntry* entry = found->second;
    const Type expected = tensor.type.with_dims(buffer_of(part.region).sizes);
    require(
        entry->type == expected, "{}: {} is {}, the manifest lists {}", in.file->path(),
        [&] { return escape_controls(name); }, entry->type, expected);
    out.push_back({in.file, in.header.data_begin + entry->begin, part.region});
  }
  return out;
}

}  // namespace tessera
