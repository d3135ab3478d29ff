// SPDX-License-Identifier: Apache-2.0
// The placement a sharding stands for: which interval of each dim every device holds. Pure arithmetic.
//
// Canonical HLO tiling of a dim of size N into T tiles: tile i holds [i*L, min((i+1)*L, N)) with L = ceil(N/T); every shard
// buffer is L long, the tail is padding that may hold any bits. Trailing tiles may be empty.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/sharding/sharding.h"
#include "tessera/tensor/literal.h"

namespace tessera {

struct Interval {
  std::int64_t start = 0;
  std::int64_t limit = 0;  // start == limit: empty
  [[nodiscard]] std::int64_t size() const { return limit - start; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// One dim: tile i starts at a*i + b and its buffer is `length` long. Canonical: a = length = ceil(size/tiles), b = 0; halos and
/// windows are other values of the same type.
struct DimPlacement {
  std::int64_t size = 0;  // global
  std::int64_t tiles = 1;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t length = 0;
  static DimPlacement canonical(std::int64_t size, std::int64_t tiles);
  /// What tile i really holds: its buffer's range cut to [0, size).
  [[nodiscard]] Interval interval(std::int64_t tile) const;
  friend bool operator==(const DimPlacement&, const DimPlacement&) = default;
};

/// Of an array under a sharding.
struct Placement {
  Sharding sharding;
  std::vector<DimPlacement> dims;
  [[nodiscard]] Interval interval(std::int64_t device, int dim) const;
};
Placement placement_of(const Type& global, const Sharding& sharding);

/// The type one device holds: dims divided, rounded up. Tuples: leaf by leaf (one sharding per leaf, or one for all).
/// Maximal, manual and unknown shardings leave the type as it is.
Type shard_type(const Type& global, const Sharding& sharding);
Type shard_type(const Type& global, const Shardings& leaves);

/// The scalar that leaves any operand of the reduction as it is: 0, 1, +inf or the largest, -inf or the smallest, all ones, 0.
/// Of a float sum it is -0.0, which even keeps the sign of a zero.
Literal partial_identity(DType dtype, Reduction reduction);
/// The part of a global array that `device` holds, in a buffer of shard_type; padding is filled with `fill` bytes.
/// A partial sharding gives the value to the device at coordinate 0 of the partial axes and the reduction's identity to others.
Literal take_shard(const Literal& global, const Sharding& sharding, std::int64_t device, unsigned char fill = 0);
/// The inverse: reads each element from the first device that holds it. Not for partial shardings.
Literal assemble(const Type& global, const Sharding& sharding, const std::vector<Literal>& shards);

/// The same device -> interval map, the same partial state: equal for every purpose.
bool same_placement(const Type& global, const Sharding& a, const Sharding& b);
/// True when every dim divides evenly into its tiles.
bool is_even(const Type& global, const Sharding& sharding);
/// Errors unless the sharding fits the type: ndim, axes within the mesh, none used twice.
void check_sharding(const Type& global, const Sharding& sharding);

}  // namespace tessera
