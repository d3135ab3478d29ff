// SPDX-License-Identifier: Apache-2.0
#include "saved_state.h"

#include <utility>

#include "files/stream_writer.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/regions.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {

std::vector<SavedTensor> pin_states(const std::map<std::string, StateDict>& states) {
  std::vector<SavedTensor> out;
  for (const auto& [group, state] : states)
    for (const NamedTensor& entry : state.entries()) {
      StoredShard stored = stored_shard(current_value(entry.tensor));
      out.push_back({group + "/" + entry.name, entry.tensor.type(), entry.exported_dims, std::move(stored.sharding),
                     stored.shard.pin()});
    }
  return out;
}

StoredFile write_own_parts(const std::string& path, const std::vector<SavedTensor>& tensors, int rank,
                           const std::function<void()>& before_list) {
  std::vector<std::pair<std::string, Type>> types;
  std::vector<std::pair<const SavedTensor*, Region>> parts;
  for (const SavedTensor& one : tensors) {
    auto region = written_region(one.type, one.sharding, rank);
    if (!region) {
      one.shard->release();
      continue;
    }
    types.emplace_back(one.name, one.type.with_dims(buffer_of(*region).sizes));
    parts.emplace_back(&one, *std::move(region));
  }
  const SafetensorsHeader header = SafetensorsHeader::of(types);
  StreamWriter out(path, true, header.file_bytes());
  const std::string text = header.str();
  out.add(std::as_bytes(std::span(text)));
  for (const auto& [one, region] : parts) {
    const auto size = static_cast<std::size_t>(dtype_size(one->type.dtype()));
    const auto shard = RegionBuffer::shard(one->type, one->sharding, region_of(one->type, one->sharding, rank));
    for_each_run(region, shard, buffer_of(region), [&](std::int64_t from, std::int64_t, std::int64_t count) {
      const std::size_t begin = static_cast<std::size_t>(from) * size;
      out.add(static_cast<std::size_t>(count) * size,
              [&](std::size_t done, std::span<std::byte> into) { one->shard->read(begin + done, into); });
    });
    one->shard->release();
  }
  before_list();
  return out.finish();
}

std::map<std::string, StoredTensor> parts_of(const std::vector<SavedTensor>& tensors, int ranks) {
  std::map<std::string, StoredTensor> out;
  for (const SavedTensor& one : tensors) {
    StoredTensor& tensor = out[one.name];
    tensor.type = one.type;
    tensor.exported_dims = one.exported_dims;
    const auto regions = written_regions(one.type, one.sharding);
    for (int rank = 0; rank < ranks; ++rank)
      if (const auto& region = at(regions, rank)) tensor.parts.push_back({state_file(rank, ranks), *region});
  }
  return out;
}

}  // namespace tessera
