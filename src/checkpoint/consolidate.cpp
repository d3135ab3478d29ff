// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "files/file_names.h"
#include "files/model_files.h"
#include "files/pieces.h"
#include "files/unfinished_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/pretrained.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using NamedStoredTensor = std::pair<const std::string, StoredTensor>;

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

// Writes the tensors of files, whose numbers are positions in `tensors`.
void write_weights(const std::shared_ptr<const CheckpointManifest>& manifest,
                   const std::vector<const NamedStoredTensor*>& tensors, const std::string& folder,
                   const std::vector<ModelFile>& files) {
  create_files(folder, files);
  PieceFiles pieces(manifest);
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
}

struct OutputPlace {
  std::string target;         // the folder that was asked for
  std::string while_written;  // FOLDER.partial, if it can be renamed
};

// What an interrupted consolidation has left in these places is deleted.
OutputPlace place_of(const std::string& folder) {
  require(!folder.empty(), "cannot write a model: the name of the folder is empty");
  OutputPlace out{target_of_links(without_end_slash(fs::absolute(folder).lexically_normal().string())), ""};
  out.while_written = cannot_be_replaced(out.target) ? out.target : out.target + std::string(kPartial);
  remove_unfinished(out.target);
  remove_unfinished(out.while_written);
  return out;
}

// A folder with files may be another model, or a checkpoint.
void check_new_folder(const std::string& folder) {
  if (!fs::exists(folder)) return;
  require(fs::is_directory(folder), "cannot write {}: it exists, and is not a folder", folder);
  require(fs::is_empty(folder), "cannot write {}: it exists, and is not empty; give a new folder", folder);
}

}  // namespace

void Checkpoint::consolidate(const std::string& group, const std::string& folder, std::int64_t max_shard_bytes) const {
  std::vector<std::pair<std::string, Type>> types;
  std::vector<const NamedStoredTensor*> tensors;
  for (const auto& one : manifest_->tensors) {
    if (!one.first.starts_with(group + "/")) continue;
    types.emplace_back(one.first.substr(group.size() + 1), one.second.type.with_dims(one.second.exported_dims));
    tensors.push_back(&one);
  }
  require(!types.empty(), "{} contains no tensors of {}", this->folder(), group);
  const OutputPlace place = place_of(folder);
  check_new_folder(folder);
  UnfinishedFolder out(place.while_written);
  // A run writes the files of its tokenizer beside its checkpoints.
  copy_tokenizer(fs::absolute(this->folder() + "/.").lexically_normal().parent_path().parent_path().string(),
                 place.while_written);
  if (manifest_->files.contains("config.json"))
    write_document(place.while_written + "/config.json", document("config").str());
  // The weights are last: a reader takes a folder with weights for a complete one.
  write_weights(manifest_, tensors, place.while_written, divide_into_files(types, max_shard_bytes));
  out.finish(place.target);
}

}  // namespace tessera
