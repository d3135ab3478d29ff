// SPDX-License-Identifier: Apache-2.0
#include "flags/fsdp/mesh_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "flags/fsdp/check_fsdp.h"
#include "flags/fsdp/config_keys.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/yaml.h"

namespace tessera::trainer {
namespace {

// Accelerate's names. The axes of a mesh have the order of these rows.
struct SizeKey {
  const char* name;
  const char* axis;  // "": there is none
};
constexpr SizeKey kSizes[] = {{"dp_replicate_size", "data"}, {"dp_shard_size", "fsdp"}, {"size", "fsdp"},
                              {"tp_size", "model"},          {"cp_size", ""},           {"sp_size", ""}};
std::vector<std::string> size_prefixes() { return {"fsdp_", "parallelism_config_"}; }

// Of sharded sequences, which need a size above 1.
constexpr const char* kOtherKeys[] = {"cp_backend", "cp_comm_strategy",      "cp_handler",
                                      "sp_backend", "sp_seq_length",         "sp_seq_length_is_variable",
                                      "sp_handler", "sp_attn_implementation"};

}  // namespace

std::vector<std::string> size_keys() {
  std::vector<std::string> out;
  for (const SizeKey& row : kSizes) {
    out.emplace_back(row.name);
    for (const std::string& prefix : size_prefixes()) out.push_back(prefix + row.name);
  }
  return out;
}

std::vector<GivenSize> find_sizes(const JsonObject& json) {
  std::vector<GivenSize> out;
  for (const SizeKey& row : kSizes) {
    const std::string key = spelling_of(json, row.name, size_prefixes());
    if (key.empty()) continue;
    std::int64_t size = 1;
    json.read(key, size);
    require(size >= 1 || size == -1, "{}: {} must be at least 1, or -1 for the remaining ranks, got {}", json.origin(),
            key, size);
    require(size == 1 || *row.axis != '\0', "{}: {} must be 1, because no key shards sequences; use tp_size",
            json.origin(), key);
    if (*row.axis != '\0') out.push_back({row.axis, size, {fmt::format("{} {}", key, size), json.origin()}});
  }
  return out;
}

std::vector<GivenSize> sizes_of_parallelism(const JsonObject& file) {
  if (!has_value(file, "parallelism_config")) return {};
  JsonObject json;
  file.read("parallelism_config", json);
  std::vector<std::string> known = size_keys();
  for (const char* name : kOtherKeys) {
    known.emplace_back(name);
    known.push_back(fmt::format("parallelism_config_{}", name));
  }
  json.require_known(known);
  return find_sizes(json);
}

MeshSizes mesh_of_sizes(const std::vector<GivenSize>& sizes) {
  std::vector<GivenSize> chosen;
  for (const SizeKey& row : kSizes)
    for (const GivenSize& size : sizes) {
      if (size.axis != row.axis) continue;
      const auto same =
          std::find_if(chosen.begin(), chosen.end(), [&](const GivenSize& other) { return other.axis == size.axis; });
      require(same == chosen.end() || same->size == size.size, "{} are different sizes of one axis",
              [&] { return same->key.with(size.key); });
      if (same == chosen.end()) chosen.push_back(size);
    }
  std::erase_if(chosen, [](const GivenSize& size) { return size.size == 1; });
  MeshSizes out;
  const GivenSize* open = nullptr;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const GivenSize& size = chosen[i];
    require(size.size > 0 || open == nullptr, "{} cannot both stand for the remaining ranks",
            [&] { return open->key.with(size.key); });
    if (size.size < 0) open = &size;
    out.axes.emplace_back(size.axis, size.size);
    const bool is_last = i + 1 == chosen.size();
    const bool names_origin = is_last || chosen[i + 1].key.origin != size.key.origin;
    out.what_gave += (names_origin ? size.key.str() : size.key.words) + (is_last ? "" : " and ");
  }
  return out;
}

MeshSizes mesh_of_files(const TrainingArguments& arguments) {
  if (can_read_fsdp_config(arguments)) {
    const FsdpConfig config = FsdpConfig::of(arguments);
    if (!config.axes.empty()) return {config.axes, config.what_gave("axes")};
  }
  if (arguments.accelerate_config.empty()) return {};
  return reading_file([&] { return mesh_of_sizes(sizes_of_parallelism(yaml_from_file(arguments.accelerate_config))); });
}

}  // namespace tessera::trainer
