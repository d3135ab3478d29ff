// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <vector>

#include "files/model_files.h"
#include "files/pieces.h"
#include "tessera/base/error.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/pretrained.h"

namespace tessera {
namespace {

constexpr std::int64_t kBytesAtOnce = 4 << 20;

// Copies a piece to its place in an array that begins at byte `begin` of the output.
void copy_piece(const Piece& piece, const Type& type, std::uint64_t begin, OutputFile& out,
                std::vector<std::byte>& buffer) {
  const auto size = static_cast<std::int64_t>(dtype_size(type.dtype()));
  for_each_run(piece.region, buffer_of(piece.region), RegionBuffer::complete(type),
               [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                 for (std::int64_t done = 0; done < count * size; done += kBytesAtOnce) {
                   const auto part =
                       std::span(buffer).first(static_cast<std::size_t>(std::min(kBytesAtOnce, count * size - done)));
                   piece.file->read(piece.offset + static_cast<std::uint64_t>(from * size + done), part);
                   out.write(begin + static_cast<std::uint64_t>(to * size + done), part);
                 }
               });
}

// A folder with files may be another model, or a checkpoint.
void check_new_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  require(!folder.empty(), "cannot write a model: the name of the folder is empty");
  if (!fs::exists(folder)) return;
  require(fs::is_directory(folder), "cannot write {}: it exists, and is not a folder", folder);
  require(fs::is_empty(folder), "cannot write {}: it exists, and is not empty; give a new folder", folder);
}

}  // namespace

void Checkpoint::consolidate(const std::string& group, const std::string& folder, std::int64_t max_shard_bytes) const {
  std::vector<std::pair<std::string, Type>> types;
  std::vector<const std::pair<const std::string, StoredTensor>*> tensors;
  for (const auto& one : manifest_->tensors) {
    if (!one.first.starts_with(group + "/")) continue;
    types.emplace_back(one.first.substr(group.size() + 1), one.second.type.with_dims(one.second.exported_dims));
    tensors.push_back(&one);
  }
  require(!types.empty(), "{} contains no tensors of {}", this->folder(), group);
  check_new_folder(folder);
  const std::vector<ModelFile> files = divide_into_files(types, max_shard_bytes);
  try {
    create_files(folder, files);
    PieceFiles pieces(manifest_);
    std::vector<std::byte> buffer(static_cast<std::size_t>(kBytesAtOnce));
    for (const ModelFile& file : files) {
      OutputFile out(partial_path(folder, file), OutputFile::Mode::kExisting);
      for (std::size_t i = 0; i < file.tensors.size(); ++i) {
        const auto& [name, tensor] = *tensors[file.tensors[i]];
        for (const Piece& piece : pieces.pieces_of(name)) copy_piece(piece, tensor.type, file.begin_of(i), out, buffer);
      }
      out.finish();
    }
    publish_files(folder, files);
  } catch (...) {
    remove_partial_files(folder, files);
    throw;
  }
  // A run writes the files of its tokenizer beside its checkpoints.
  copy_tokenizer(
      std::filesystem::absolute(this->folder() + "/.").lexically_normal().parent_path().parent_path().string(), folder);
  if (manifest_->files.contains("config.json")) write_document(folder + "/config.json", document("config").str());
}

}  // namespace tessera
