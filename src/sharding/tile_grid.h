// SPDX-License-Identifier: Apache-2.0
// The tiles of a sharded array as grids of labels, from which pictures are drawn.
#pragma once

#include <string>
#include <vector>

#include "tessera/sharding/placement.h"

namespace tessera {

inline constexpr int kNoDevice = -1;

struct TileGrid {
  std::string title;                             // the intervals of the dims before the last two, `[0:3]`
  std::vector<std::vector<std::string>> labels;  // rows x columns: the devices of each tile, `0,4` or `3 (empty)`
  std::vector<std::vector<int>> first_devices;   // the first device of each tile; kNoDevice for an empty tile
  std::vector<Interval> rows, columns;           // one interval each; an empty one for a dim that the array lacks
};

/// Returns one grid for each combination of tiles of the dims before the last two. Throws an Error for a sharding that is
/// not tiled, or if there are more than kMostPictures grids.
std::vector<TileGrid> tile_grids(const Type& type, const Sharding& sharding);

}  // namespace tessera
