// SPDX-License-Identifier: Apache-2.0
// Selects the dim of a parameter that FSDP shards.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/sharding/sharding.h"
#include "tessera/tensor/shape.h"

namespace tessera::fsdp {

/// The dims that may be sharded.
struct ShardChoice {
  int first_dim = 0;         // 1 for a stack: each of its variables is sharded by itself
  std::optional<int> dim{};  // this dim only; nullopt: the best one
  std::int64_t group = 1;    // the innermost devices along the axis that hold one gathered copy between the passes
};

/// Returns the storage of a parameter whose sharding in use is `gathered`: `axes` are added to one dim, as minor axes.
/// This is the first dim that divides evenly. If none does, it is the dim with the fewest bytes for each device, and
/// among these the one with the least padding; if a factor of the axes gives the same number of bytes without padding,
/// only this factor shards the dim. Nullopt if there is no dim, or `axes` have one device.
std::optional<Sharding> choose_shard(const Type& type, const Sharding& gathered, const std::vector<AxisRef>& axes,
                                     const ShardChoice& choice);

/// The elements that all devices together store beyond one copy of the array, in padded tiles. Replicas do not count.
std::int64_t padded_elements(const Type& type, const Sharding& storage);

}  // namespace tessera::fsdp
