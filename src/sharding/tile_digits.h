// SPDX-License-Identifier: Apache-2.0
// Represents a tile array by mixed-radix digits of the position, which V2 texts, meshes and axes have in common.
//
//   tile dims [4,2], positions 0,2,1,3,4,6,5,7 … -> dim 0: digits (stride 4, size 2)(1, 2), dim 1: (2, 2)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/sharding/hlo_sharding.h"

namespace tessera {

/// The largest number of devices of a mesh or list, because lists are stored expanded.
constexpr std::int64_t kMostDevices = std::int64_t{1} << 20;

struct Digit {
  std::int64_t stride = 1;
  std::int64_t size = 1;
  friend bool operator==(const Digit&, const Digit&) = default;
};
/// Major to minor.
using Digits = std::vector<Digit>;

/// The digits of each tile dim, each as large as possible; null if the positions (a permutation, row-major over the
/// tile dims) have no such form.
std::optional<std::vector<Digits>> tile_digits(const Dims& tile_dims, const std::vector<std::int64_t>& positions);

/// Normalizes a kTiled leaf: removes size-1 subgroups, merges types in XLA's order, sorts replicas, finds the iota
/// form, and uses other kinds than kTiled where they are equivalent. Expects devices to be a permutation of 0..n-1.
void normalize(HloSharding& leaf);

/// The sizes of the subgroups of a normalized leaf (1 if absent) and the number of data tiles.
struct SubgroupSizes {
  std::int64_t data = 1;
  std::int64_t manual = 1;
  std::int64_t unreduced = 1;
  std::int64_t replicated = 1;
};
SubgroupSizes subgroup_sizes(const HloSharding& leaf);
int data_ndim(const HloSharding& leaf);

}  // namespace tessera
