// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "blocks.h"
#include "files/file_names.h"
#include "files/manifest.h"
#include "files/stream_writer.h"
#include "save_checks.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera {
namespace {

// The rows of file number `k` of `count`: ceil(rows / count) in each, as in FSDP. A scalar is in the first file.
std::optional<Region> rows_of(const Type& type, std::int64_t k, std::int64_t count) {
  Region out = complete_region(type);
  if (type.ndim() == 0) return k == 0 ? std::optional(out) : std::nullopt;
  const std::int64_t tile = (type.dim(0) + count - 1) / count;
  out.dims[0] = {std::min(type.dim(0), k * tile), std::min(type.dim(0), (k + 1) * tile)};
  return out.element_count() > 0 || (k == 0 && type.element_count() == 0) ? std::optional(out) : std::nullopt;
}

// Writes file `number`, and adds its parts to the manifest.
void write_rows(PieceFiles& files, const CheckpointManifest& from, CheckpointManifest& to, int number, int count) {
  const std::string name = state_file(number, count);
  std::vector<std::pair<std::string, Type>> types;
  for (const auto& [tensor, stored] : from.tensors)
    if (auto region = rows_of(stored.type, number, count)) {
      types.emplace_back(tensor, stored.type.with_dims(buffer_of(*region).sizes));
      to.tensors.at(tensor).parts.push_back({name, *std::move(region)});
    }
  const SafetensorsHeader header = SafetensorsHeader::of(types);
  StreamWriter out(to.folder + "/" + name, true, header.file_bytes());
  const std::string text = header.str();
  out.add(std::as_bytes(std::span(text)));
  for (const auto& [tensor, type] : types) {
    const StoredTensor& stored = from.tensors.at(tensor);
    const std::vector<Piece> pieces = files.pieces_of(tensor);
    for_each_block(to.tensors.at(tensor).parts.back().region, type.dtype(),
                   [&](const Region& block) { out.add(read_region(pieces, stored.type, block)); });
  }
  to.files[name] = out.finish();
}

void copy_document(const std::string& from, const std::string& to, CheckpointManifest& manifest,
                   const std::string& name) {
  StreamWriter out(to + "/" + name, false);
  const std::string text = read_file(from + "/" + name);
  out.add(std::as_bytes(std::span(text)));
  manifest.files[name] = out.finish();
}

// More files than rows would be empty.
void check_file_count(const CheckpointManifest& manifest, int count, const std::string& what) {
  require(count >= 1, "{}: the number of files must be at least 1, got {}", what, count);
  std::int64_t most = 1;
  std::string name;
  for (const auto& [tensor, stored] : manifest.tensors) {
    if (stored.type.ndim() == 0 || stored.type.dim(0) <= most) continue;
    most = stored.type.dim(0);
    name = tensor;
  }
  require(count <= most,
          "{}: {} files are too many, because no tensor has more than {} row{}{}; give at most {} file{}", what, count,
          most, most == 1 ? "" : "s", name.empty() ? "" : " (" + name + ")", most, most == 1 ? "" : "s");
}

}  // namespace

void Checkpoint::reshard(const std::string& given, int count) const {
  require(!given.empty(), "cannot write a checkpoint: the name of the folder is empty");
  const std::string folder = without_end_slash(std::filesystem::path(given).lexically_normal().string());
  const std::string what = "cannot write " + folder;
  require(!std::filesystem::exists(folder), "{}: it exists", what);
  check_file_count(*manifest_, count, what);
  verify_documents();
  CheckpointManifest out{folder + std::string(kPartial), manifest_->tensors, {}, manifest_->classes};
  for (auto& [name, tensor] : out.tensors) tensor.parts.clear();
  try {
    make_partial_folder(out.folder);
  } catch (const Error& error) {
    fail("{}: {}", what, error.what());
  }
  try {
    PieceFiles files(manifest_);
    for (int number = 0; number < count; ++number) write_rows(files, *manifest_, out, number, count);
    for (const auto& [name, file] : manifest_->files)
      if (!file.has_list) copy_document(this->folder(), out.folder, out, name);
    StreamWriter manifest(out.folder + "/" + kManifestFile, false);
    const std::string text = out.str();
    manifest.add(std::as_bytes(std::span(text)));
    (void)manifest.finish();
    commit_rename(out.folder, folder);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(out.folder, ignored);
    throw;
  }
}

}  // namespace tessera
