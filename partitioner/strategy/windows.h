// SPDX-License-Identifier: Apache-2.0
// Windows over sharded dims: the part of an operand dim that every tile of a factor reads, and the buffer that holds
// it.
//
//   slice [1:8] of f32[8]{a}, a=2     tile 0 holds [0,4), reads [1,5); tile 1 holds [4,8), reads [5,8)
//
// One program runs for all tiles, so their buffers have equal lengths, and element 0 has the same offset from the first
// window. If the operand is dilated, tiles therefore begin at a multiple of `alignment` and drop the results that
// precede their tile.
#pragma once

#include <vector>

#include "propagation/factor_sharding.h"
#include "tessera/sharding/placement.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// The work of the tiles of a factor: tile i computes `count` indices from first[i]. The indices that belong to the
/// tile begin `skip[i]` later.
struct FactorTiling {
  std::int64_t length = 0;  // number of indices that belong to a tile
  std::int64_t count = 0;
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> skip;
  /// Whether each tile computes exactly the indices that belong to it.
  [[nodiscard]] bool is_exact() const;
};

/// One operand dim: tile i's buffer holds elements [start[i], start[i] + length). Outside of [0, size) it holds the
/// values that the op reads there.
struct Halo {
  int operand = 0;  // operand leaf
  int dim = 0;
  Axes axes;
  DimPlacement before;
  std::vector<std::int64_t> start;
  std::int64_t length = 0;
  std::vector<Interval> needed;  // per tile: the elements that influence results
  /// Per tile: the positions of the buffer that keep their values; the others get the value that the op reads outside
  /// of the operand. Positions beyond the operand that only influence padding of results also keep their values. In a
  /// tile of a convolution kernel, only the needed elements do, because each element is a multiplicand.
  std::vector<Interval> kept;
  bool reads_outside = false;
  std::int64_t low = 0;  // LocalWindow
  std::int64_t high = 0;
};

/// Whether every operand dim of a kPermute factor has a window.
bool has_windows(const FactorMap& map, int factor);
/// Whether this number of tiles can be computed. Only kernels that slide over dilated operands may prevent it.
bool windows_fit(const FactorMap& map, int factor, std::int64_t tiles);
/// The tiling of a factor into this number of tiles.
FactorTiling tiling_of(const FactorMap& map, int factor, std::int64_t tiles);
/// The halos of all sharded factors with windows, in the order of FactorMap::windows.
std::vector<Halo> halos_of(const FactorMap& map, const std::vector<Type>& operands, const Strategy& strategy);

/// The sharding that an op requires of an operand: that of its factors. Dims with windows stay unsharded if the operand
/// is already unsharded there and the other dims need no reshard; each tile then takes its window from its own copy.
/// Windows of one element (slice, concatenate) are an exception: these ops only move elements, so the op runs unsharded
/// and its result is then sharded, or the result is concatenated from parts. `current`: the current sharding of the
/// operand.
Sharding needed_operand(const Mesh& mesh, const FactorMap& map, int operand, const Type& type, const Strategy& strategy,
                        const Sharding& current, const Topology& topology);

/// The bytes that one device receives for all halos, which are exchanged one after the other, and the resulting size of
/// its operands.
struct HaloCost {
  std::int64_t bytes = 0;
  double seconds = 0;  // if the topology is not uniform
  std::int64_t operand_bytes = 0;
};
/// `current`: the current shardings of the operands.
HaloCost halo_cost(const Mesh& mesh, const FactorMap& map, const std::vector<Type>& operands, const Strategy& strategy,
                   const std::vector<Sharding>& current, const Topology& topology);

}  // namespace tessera
