// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "file_names.h"
#include "on_all_ranks.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/checkpoint/regions.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct OutFile {
  std::string name;  // model-00001-of-00002.safetensors
  std::vector<const NamedTensor*> entries;
  SafetensorsHeader header;
};

// The type in files.
Type exported_type(const NamedTensor& entry) { return entry.tensor.type().with_dims(entry.exported_dims); }

std::vector<OutFile> divide_into_files(const StateDict& state, std::int64_t most_bytes) {
  std::vector<OutFile> out(1);
  std::int64_t bytes = 0;
  for (const NamedTensor& entry : state.entries()) {
    const std::int64_t own = exported_type(entry).byte_size();
    if (!out.back().entries.empty() && bytes + own > most_bytes) {
      out.emplace_back();
      bytes = 0;
    }
    out.back().entries.push_back(&entry);
    bytes += own;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].name = out.size() == 1 ? kSingleFile : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, out.size());
    std::vector<std::pair<std::string, Type>> types;
    for (const NamedTensor* entry : out[i].entries) types.emplace_back(entry->name, exported_type(*entry));
    out[i].header = SafetensorsHeader::of(types, {{"format", "pt"}});
  }
  return out;
}

std::string temporary_path(const std::string& folder, const OutFile& file) {
  return fmt::format("{}/{}.partial", folder, file.name);
}

void create(const std::string& folder, const std::vector<OutFile>& files) {
  make_folder(folder);
  for (const OutFile& file : files) {
    OutputFile out(temporary_path(folder, file), OutputFile::Mode::kCreate);
    out.resize(file.header.file_bytes());
    const std::string text = file.header.str();
    out.write(0, std::as_bytes(std::span(text)));
  }
}

void write_own_elements(const OutFile& file, int rank, OutputFile& out) {
  for (std::size_t i = 0; i < file.entries.size(); ++i) {
    const Tensor& tensor = file.entries[i]->tensor;
    const StoredShard stored = stored_shard(tensor);
    const Region region = written_region(tensor.type(), stored.sharding, rank);
    if (region.element_count() == 0) continue;
    const auto size = static_cast<std::int64_t>(dtype_size(tensor.dtype()));
    const std::uint64_t begin = file.header.data_begin + file.header.tensors[i].begin;
    const auto shard =
        RegionBuffer::shard(tensor.type(), stored.sharding, region_of(tensor.type(), stored.sharding, rank));
    for_each_run(region, shard, RegionBuffer::complete(tensor.type()),
                 [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                   out.write(begin + static_cast<std::uint64_t>(to * size),
                             stored.shard.bytes().subspan(static_cast<std::size_t>(from * size),
                                                          static_cast<std::size_t>(count * size)));
                 });
  }
}

JsonObject index_of(const std::vector<OutFile>& files) {
  JsonObject map;
  std::int64_t total = 0;
  for (const OutFile& file : files)
    for (const NamedTensor* entry : file.entries) {
      map.set(entry->name, file.name);
      total += exported_type(*entry).byte_size();
    }
  JsonObject metadata;
  metadata.set("total_size", total);
  JsonObject out;
  out.set("metadata", metadata);
  out.set("weight_map", map);
  return out;
}

// Files of an earlier save with another number of files.
void remove_older_files(const std::string& folder, const std::vector<OutFile>& files) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_weights = name == kSingleFile || (name.starts_with("model-") && name.ends_with(".safetensors"));
    const bool is_new = std::any_of(files.begin(), files.end(), [&](const OutFile& file) { return file.name == name; });
    if (is_weights && !is_new) fs::remove(entry.path());
  }
  if (files.size() == 1) fs::remove(fs::path(folder) / kIndexFile);
}

void publish(const std::string& folder, const std::vector<OutFile>& files) {
  for (const OutFile& file : files) commit_rename(temporary_path(folder, file), folder + "/" + file.name);
  if (files.size() > 1) index_of(files).save(folder + "/" + kIndexFile);
  remove_older_files(folder, files);
}

}  // namespace

void save_state(const StateDict& state, const std::string& folder, const SavePretrainedOptions& options) {
  const auto world = joined_world();
  const std::string what = "cannot save to " + folder;
  for (const NamedTensor& entry : state.entries()) (void)stored_shard(entry.tensor);  // collective
  const std::vector<OutFile> files = divide_into_files(state, options.max_shard_bytes);
  const bool is_first = world->rank() == 0;
  on_all_ranks(what, [&] {
    if (is_first) create(folder, files);
  });
  on_all_ranks(what, [&] {
    for (const OutFile& file : files) {
      OutputFile out(temporary_path(folder, file), OutputFile::Mode::kExisting);
      write_own_elements(file, world->rank(), out);
      out.finish();
    }
  });
  on_all_ranks(what, [&] {
    if (is_first) publish(folder, files);
  });
}

void save_pretrained(const nn::GPT2LMHeadModel& model, const std::string& folder,
                     const SavePretrainedOptions& options) {
  save_state(model.state_dict(), folder, options);
  if (joined_world()->rank() != 0) return;
  JsonObject config = JsonObject::parse(model.config().to_json(), folder + "/config.json");
  config.set("architectures", std::vector<std::string>{std::string(model.class_name())});
  config.set("model_type", "gpt2");
  config.set("torch_dtype", model.config().dtype == DType::kF64 ? "float64" : "float32");
  config.save(folder + "/config.json");
}

}  // namespace tessera
