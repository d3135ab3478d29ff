// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/shard_data.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {

std::vector<Interval> shard_indices(const Type& global, const Sharding& sharding, std::int64_t device) {
  std::vector<Interval> out;
  if (!sharding.is_tiled()) {
    const bool holds = sharding.kind != Sharding::Kind::kMaximal || sharding.device == device;
    for (const auto size : global.dims()) out.push_back({0, holds ? size : 0});
    return out;
  }
  const Placement placement = placement_of(global, sharding);
  for (int d = 0; d < global.ndim(); ++d) out.push_back(placement.interval(device, d));
  return out;
}

Dims unpadded_dims(const Type& global, const Sharding& sharding, std::int64_t device) {
  Dims out;
  for (const Interval& interval : shard_indices(global, sharding, device))
    out.push_back(std::max<std::int64_t>(interval.size(), 0));
  return out;
}

Literal unpadded_shard(const Literal& shard, const Type& global, const Sharding& sharding, std::int64_t device) {
  const Dims dims = unpadded_dims(global, sharding, device);
  if (shard.type().dims() == dims) return shard;
  Literal out(shard.type().with_dims(dims));
  const Dims origin(dims.size(), 0);
  if (product(dims) > 0) copy_part(shard, origin, out, origin, dims);
  return out;
}

Literal padded_shard(const Literal& shard, const Type& global, const Sharding& sharding, std::int64_t device) {
  const Type padded = shard_type(global, sharding);
  if (shard.type() == padded) return shard;
  const Type held = global.with_dims(unpadded_dims(global, sharding, device));
  require(shard.type() == held, "device {} holds {} of {} {} (with padding {}), got {}", device, held, global, sharding,
          padded, shard.type());
  Literal out(padded);
  const Dims origin(held.dims().size(), 0);
  copy_part(shard, origin, out, origin, held.dims());
  return out;
}

std::int64_t replica_id(const Type& global, const Sharding& sharding, std::int64_t device) {
  const auto own = shard_indices(global, sharding, device);
  std::int64_t before = 0;
  for (std::int64_t position = 0; position < sharding.mesh.position_of(device); ++position)
    if (shard_indices(global, sharding, sharding.mesh.device_at(position)) == own) ++before;
  return before;
}

}  // namespace tessera
