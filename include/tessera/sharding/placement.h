// SPDX-License-Identifier: Apache-2.0
// The placement that a sharding describes: the interval of each dim that every device holds. Pure arithmetic.
//
// Canonical HLO tiling of a dim of size N into T tiles: tile i holds [i*L, min((i+1)*L, N)) with L = ceil(N/T). Every
// shard has L elements along the dim. Those outside of the tile are padding and may have any bits. The last tiles may
// be empty.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/sharding/sharding.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// The numbers from `start` to `limit` - 1.
struct Interval {
  std::int64_t start = 0;
  std::int64_t limit = 0;  // start == limit: empty
  [[nodiscard]] std::int64_t size() const { return limit - start; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// The placement of one dim: tile i starts at a*i + b, and its buffer has `length` elements. In canonical tiling, a =
/// length = ceil(size/tiles) and b = 0. Tiles with halos or windows have other values.
struct DimPlacement {
  std::int64_t size = 0;  // global
  std::int64_t tiles = 1;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t length = 0;
  static DimPlacement canonical(std::int64_t size, std::int64_t tiles);
  /// The elements of tile i: the range of its buffer, clipped to [0, size).
  [[nodiscard]] Interval interval(std::int64_t tile) const;
  friend bool operator==(const DimPlacement&, const DimPlacement&) = default;
};

/// The placement of an array under a sharding.
struct Placement {
  Sharding sharding;
  std::vector<DimPlacement> dims;
  [[nodiscard]] Interval interval(std::int64_t device, int dim) const;
};
/// The placement that a sharding describes.
Placement placement_of(const Type& global, const Sharding& sharding);

/// The type of one device's shard: sharded dims are divided and rounded up. Tuples: leaf by leaf (one sharding for
/// each leaf, or one for all). Maximal, manual and unknown shardings do not change the type.
Type shard_type(const Type& global, const Sharding& sharding);
Type shard_type(const Type& global, const Shardings& leaves);

/// Returns the identity of the reduction, in the order of Reduction: 0; 1; +inf or the largest integer; -inf or the
/// smallest integer; all ones; 0. For a float sum it is -0.0, because -0.0 + x keeps the sign of a zero x.
Literal partial_identity(DType dtype, Reduction reduction);
/// Returns the shard of a global array on `device`, of type shard_type. Padding is filled with `fill` bytes. With a
/// partial sharding, the device at coordinate 0 of the partial axes gets the value, and the others get the identity
/// of the reduction.
Literal take_shard(const Literal& global, const Sharding& sharding, std::int64_t device, unsigned char fill = 0);
/// The inverse of take_shard(): reads each element from the first device that holds it. The sharding must not be
/// partial.
Literal assemble(const Type& global, const Sharding& sharding, const std::vector<Literal>& shards);

/// True if every device holds the same intervals under both shardings, and both are partial in the same way.
bool same_placement(const Type& global, const Sharding& a, const Sharding& b);
/// True if every dim divides evenly into its tiles.
bool is_even(const Type& global, const Sharding& sharding);
/// Checks that the sharding fits the type. Errors: wrong ndim, an axis that is not in the mesh, an axis used twice.
void check_sharding(const Type& global, const Sharding& sharding);

}  // namespace tessera
