// SPDX-License-Identifier: Apache-2.0
// The parts of a sharded array as grids of labels: what pictures are drawn from.
#pragma once

#include <string>
#include <vector>

#include "tessera/sharding/placement.h"

namespace tessera {

inline constexpr int kNoDevice = -1;

struct TileGrid {
  std::string title;                             // of three dims: the interval of the first, `[0:3]`
  std::vector<std::vector<std::string>> labels;  // rows x columns: the devices of each part, `0,4` or `3 (empty)`
  std::vector<std::vector<int>> first_devices;   // of each part; kNoDevice where no element is left for a part
  std::vector<Interval> rows, columns;           // one interval each; of fewer dims a single empty one
};

/// One grid; of three dims one for each part of the first. Error for more dims, or for what is no tiling.
std::vector<TileGrid> tile_grids(const Type& type, const Sharding& sharding);

}  // namespace tessera
