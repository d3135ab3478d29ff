// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "manifest.h"
#include "on_all_ranks.h"
#include "tessera/base/checksum.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/random_access.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPartial = ".partial";

// A tensor of the checkpoint, and this rank's shard.
struct Saved {
  std::string name;  // GROUP/NAME
  Type type;
  Dims exported_dims;
  StoredShard stored;
};

std::vector<Saved> saved_tensors(const CheckpointContent& content) {
  std::vector<Saved> out;
  for (const auto& [group, state] : content.states)
    for (const NamedTensor& entry : state.entries())
      out.push_back({group + "/" + entry.name, entry.tensor.type(), entry.exported_dims, stored_shard(entry.tensor)});
  return out;
}

// Writes parts one after the other, and computes the checksum of the file.
class StreamWriter {
 public:
  explicit StreamWriter(const std::string& path) : file_(path, OutputFile::Mode::kCreate) { buffer_.reserve(kAtOnce); }

  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), kAtOnce - buffer_.size()));
      buffer_.insert(buffer_.end(), part.begin(), part.end());
      bytes = bytes.subspan(part.size());
      if (buffer_.size() == kAtOnce) flush();
    }
  }
  StoredFile finish() {
    flush();
    file_.finish();
    return {written_, sum_.text()};
  }

 private:
  void flush() {
    file_.write(written_, buffer_);
    sum_.add(buffer_);
    written_ += buffer_.size();
    buffer_.clear();
  }

  static constexpr std::size_t kAtOnce = 4 << 20;
  OutputFile file_;
  Checksum sum_;
  std::vector<std::byte> buffer_;
  std::uint64_t written_ = 0;
};

StoredFile write_own_parts(const std::string& path, const std::vector<Saved>& tensors, int rank) {
  std::vector<std::pair<std::string, Type>> types;
  std::vector<std::pair<const Saved*, Region>> parts;
  for (const Saved& one : tensors) {
    auto region = written_region(one.type, one.stored.sharding, rank);
    if (!region) continue;
    types.emplace_back(one.name, one.type.with_dims(buffer_of(*region).sizes));
    parts.emplace_back(&one, *std::move(region));
  }
  StreamWriter out(path);
  const std::string header = SafetensorsHeader::of(types).str();
  out.add(std::as_bytes(std::span(header)));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [one, region] = parts[i];
    const auto size = static_cast<std::size_t>(dtype_size(one->type.dtype()));
    const auto shard =
        RegionBuffer::shard(one->type, one->stored.sharding, region_of(one->type, one->stored.sharding, rank));
    for_each_run(region, shard, buffer_of(region), [&](std::int64_t from, std::int64_t, std::int64_t count) {
      out.add(one->stored.shard.bytes().subspan(static_cast<std::size_t>(from) * size,
                                                static_cast<std::size_t>(count) * size));
    });
  }
  return out.finish();
}

// Every rank knows which parts the others write.
std::map<std::string, StoredTensor> parts_of(const std::vector<Saved>& tensors, int ranks) {
  std::map<std::string, StoredTensor> out;
  for (const Saved& one : tensors) {
    StoredTensor& tensor = out[one.name];
    tensor.type = one.type;
    tensor.exported_dims = one.exported_dims;
    for (int rank = 0; rank < ranks; ++rank) {
      auto region = written_region(one.type, one.stored.sharding, rank);
      if (region) tensor.parts.push_back({state_file(rank, ranks), *std::move(region)});
    }
  }
  return out;
}

StoredFile write_whole_file(const std::string& path, const std::string& text) {
  StreamWriter out(path);
  out.add(std::as_bytes(std::span(text)));
  return out.finish();
}

// Each rank's `bytes checksum`, as text.
std::string figures(const StoredFile& file) { return fmt::format("{} {}", file.bytes, file.checksum); }
StoredFile from_figures(const std::string& text) {
  const auto space = text.find(' ');
  ensure(space != std::string::npos, "figures of a file: {}", text);
  return {std::stoull(text.substr(0, space)), text.substr(space + 1)};
}

std::int64_t step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "checkpoint-";
  std::int64_t step = -1;
  if (!name.starts_with(kPrefix)) return -1;
  const char* end = name.data() + name.size();
  const auto [last, code] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return code == std::errc() && last == end ? step : -1;
}

}  // namespace

void save_checkpoint(const std::string& folder, const CheckpointContent& content) {
  const auto world = joined_world();
  const std::string what = "cannot save " + folder;
  const std::string partial = folder + std::string(kPartial);
  const std::vector<Saved> tensors = saved_tensors(content);  // collective
  const bool is_first = world->rank() == 0;
  StoredFile own;
  try {
    on_all_ranks(what, [&] {
      if (!is_first) return;
      fs::remove_all(partial);
      make_folder(partial);
    });
    on_all_ranks(what, [&] {
      own = write_own_parts(partial + "/" + state_file(world->rank(), world->size()), tensors, world->rank());
    });
    const auto all = gather_texts(*world, figures(own));
    on_all_ranks(what, [&] {
      if (!is_first) return;
      CheckpointManifest manifest{partial, parts_of(tensors, world->size()), {}};
      for (int rank = 0; rank < world->size(); ++rank)
        manifest.files[state_file(rank, world->size())] = from_figures(at(all, rank));
      for (const auto& [name, document] : content.documents)
        manifest.files[name + ".json"] = write_whole_file(fmt::format("{}/{}.json", partial, name), document.str());
      (void)write_whole_file(partial + "/" + kManifestFile, manifest.str());
      commit_rename(partial, folder);
    });
  } catch (const Error&) {
    std::error_code ignored;
    if (is_first) fs::remove_all(partial, ignored);
    throw;
  }
}

std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder) {
  std::map<std::int64_t, std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::int64_t step = step_of(entry.path().filename().string()); step >= 0)
      out[step] = entry.path().string();
  return out;
}

std::vector<std::string> remove_partial_checkpoints(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const auto stem = name.find(kPartial);
    if (stem != std::string::npos && stem + kPartial.size() == name.size() && step_of(name.substr(0, stem)) >= 0)
      out.push_back(entry.path().string());
  }
  for (const std::string& path : out) fs::remove_all(path, error);
  return out;
}

void keep_newest_checkpoints(const std::string& folder, std::int64_t most) {
  auto found = checkpoints_in(folder);
  while (isize(found) > most && !found.empty()) {
    const std::string doomed = found.begin()->second + std::string(kPartial);  // no longer a complete checkpoint
    fs::rename(found.begin()->second, doomed);
    fs::remove_all(doomed);
    found.erase(found.begin());
  }
}

}  // namespace tessera
