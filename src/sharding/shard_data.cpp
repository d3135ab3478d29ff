// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/shard_data.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// Copies the box of `dims` elements at the origin of both arrays.
void copy_box(const Literal& from, Literal& to, const Dims& dims) {
  const std::int64_t count = product(dims);
  if (count == 0) return;
  const auto width = dtype_size(from.type().dtype());
  const std::int64_t row = dims.empty() ? 1 : dims.back();
  const auto* source = from.bytes().data();
  auto* target = to.mutable_bytes().data();
  for (std::int64_t first = 0; first < count; first += row) {
    std::int64_t rest = first / row;
    std::int64_t from_row = 0, to_row = 0, from_stride = 1, to_stride = 1;
    for (int d = isize(dims) - 2; d >= 0; --d) {
      const std::int64_t index = rest % at(dims, d);
      rest /= at(dims, d);
      from_row += index * from_stride;
      to_row += index * to_stride;
      from_stride *= from.type().dim(d);
      to_stride *= to.type().dim(d);
    }
    const std::int64_t from_last = dims.empty() ? 1 : from.type().dims().back();
    const std::int64_t to_last = dims.empty() ? 1 : to.type().dims().back();
    std::memcpy(target + to_row * to_last * width, source + from_row * from_last * width,
                static_cast<std::size_t>(row * width));
  }
}

}  // namespace

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
  copy_box(shard, out, dims);
  return out;
}

Literal padded_shard(const Literal& shard, const Type& global, const Sharding& sharding, std::int64_t device) {
  const Type padded = shard_type(global, sharding);
  if (shard.type() == padded) return shard;
  const Type held = global.with_dims(unpadded_dims(global, sharding, device));
  require(shard.type() == held, "device {} holds {} of {} {} (with padding {}), got {}", device, held, global, sharding,
          padded, shard.type());
  Literal out(padded);
  copy_box(shard, out, held.dims());
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
