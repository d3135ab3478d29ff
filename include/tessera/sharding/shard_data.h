// SPDX-License-Identifier: Apache-2.0
// The elements of one device's shard without its padding.
#pragma once

#include <vector>

#include "tessera/sharding/placement.h"

namespace tessera {

/// The interval of each dim that `device` holds. A sharding that is not tiled divides no dim.
std::vector<Interval> shard_indices(const Type& global, const Sharding& sharding, std::int64_t device);
/// The sizes of the intervals: the dims of the shard without padding.
Dims unpadded_dims(const Type& global, const Sharding& sharding, std::int64_t device);
/// Removes the padding from a shard of type shard_type(global, sharding).
Literal unpadded_shard(const Literal& shard, const Type& global, const Sharding& sharding, std::int64_t device);
/// Adds padding of zeros to a shard without padding. Returns a shard that already has its padding unchanged. Error if
/// the shard has other dims, or another element type than `global`.
Literal padded_shard(const Literal& shard, const Type& global, const Sharding& sharding, std::int64_t device);
/// The index of `device` among the devices that hold the same elements, in the order of their positions in the mesh.
std::int64_t replica_id(const Type& global, const Sharding& sharding, std::int64_t device);

}  // namespace tessera
