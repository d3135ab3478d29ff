// SPDX-License-Identifier: Apache-2.0
#include "pieces.h"

#include "tessera/base/error.h"

namespace tessera {

RegionBuffer buffer_of(const Region& region) {
  RegionBuffer out;
  for (const Interval& dim : region.dims) {
    out.sizes.push_back(dim.size());
    out.origin.push_back(dim.start);
  }
  return out;
}

const PieceFiles::OpenFile& PieceFiles::open(const std::string& name) {
  if (const auto found = open_.find(name); found != open_.end()) return found->second;
  const std::string path = manifest_.folder + "/" + name;
  const StoredFile& expected = manifest_.files.at(name);
  auto file = std::make_shared<const InputFile>(path);
  require(file->size() == expected.bytes, "{} has {} bytes, the manifest lists {}", path, file->size(), expected.bytes);
  SafetensorsHeader header = SafetensorsHeader::from_file(*file);
  return open_.emplace(name, OpenFile{std::move(file), std::move(header)}).first->second;
}

std::vector<Piece> PieceFiles::pieces_of(const std::string& name) {
  const StoredTensor& tensor = manifest_.tensors.at(name);
  std::vector<Piece> out;
  for (const TensorPart& part : tensor.parts) {
    const OpenFile& in = open(part.file);
    const SafetensorsEntry* entry = in.header.find(name);
    require(entry != nullptr, "{} does not contain {}", in.file->path(), name);
    const Type expected = tensor.type.with_dims(buffer_of(part.region).sizes);
    require(entry->type == expected, "{}: {} is {}, the manifest lists {}", in.file->path(), name, entry->type,
            expected);
    out.push_back({in.file, in.header.data_begin + entry->begin, part.region});
  }
  return out;
}

}  // namespace tessera
