// SPDX-License-Identifier: Apache-2.0
// Windows over sharded dims: which part of an operand dim every tile of a factor reads, and the buffer that holds it.
//
//   slice [1:8] of f32[8]{a}, a=2     tile 0 holds [0,4), reads [1,5); tile 1 holds [4,8), reads [5,8)
//
// One program runs on all tiles, so their buffers are equally long, and element 0 stands in the same place before the first window.
// Where the operand is dilated, tiles therefore begin their work at a multiple of `alignment`, and drop what comes too early.
#pragma once

#include <vector>

#include "propagation/factor_sharding.h"
#include "tessera/sharding/placement.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// What the tiles of a factor compute: tile i the `count` indices from first[i] on; those that are wanted begin `skip[i]` later.
struct FactorTiling {
  std::int64_t length = 0;  // wanted
  std::int64_t count = 0;
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> skip;
  /// Each tile computes just what is wanted.
  [[nodiscard]] bool is_exact() const;
};

/// One operand dim: tile i's buffer holds elements [start[i], start[i] + length); outside of [0, size) stands what the op reads there.
struct Halo {
  int operand = 0;  // leaf
  int dim = 0;
  Axes axes;
  DimPlacement before;
  std::vector<std::int64_t> start;
  std::int64_t length = 0;
  std::vector<Interval> needed;  // per tile: the elements that count
  /// Per tile: the places that stay as they are; around them stands what the op reads outside. Places beyond an end of the operand
  /// that only padding of results reads stay too. Of a kernel's tile only the elements that count stay: all it reads is multiplied by something.
  std::vector<Interval> kept;
  bool reads_outside = false;
  std::int64_t low = 0;  // LocalWindow
  std::int64_t high = 0;
};

/// Whether every operand dim of a kPermute factor has a window.
bool has_windows(const FactorMap& map, int factor);
/// Whether so many tiles can be computed: always, but for kernels that slide over dilated operands.
bool windows_fit(const FactorMap& map, int factor, std::int64_t tiles);
FactorTiling tiling_of(const FactorMap& map, int factor, std::int64_t tiles);
/// The halos of all sharded factors with windows, in the order of FactorMap::windows.
std::vector<Halo> halos_of(const FactorMap& map, const std::vector<Type>& operands, const Strategy& strategy);

/// How an op needs an operand: cut as its factors are, but whole along dims of windows where it lies whole already and nothing has to be
/// moved for the others: each tile takes its window from what it has. Not of windows of one element (slice, concatenate): what only
/// moves elements is made whole and cut, or joined from parts. `lying`: how the operand is now.
Sharding needed_operand(const Mesh& mesh, const FactorMap& map, int operand, const Type& type, const Strategy& strategy,
                        const Sharding& lying, const Topology& topology);

/// What one device receives for all halos, exchanged one after the other, and what its operands are then.
struct HaloCost {
  std::int64_t bytes = 0;
  double seconds = 0;  // on a topology that is not uniform
  std::int64_t operand_bytes = 0;
};
/// `lying`: as above, of every operand.
HaloCost halo_cost(const Mesh& mesh, const FactorMap& map, const std::vector<Type>& operands, const Strategy& strategy,
                   const std::vector<Sharding>& lying, const Topology& topology);

}  // namespace tessera
