// SPDX-License-Identifier: Apache-2.0
#include "sharding/tile_grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// Returns the tiles of dim `d`, or one empty interval if the array has no such dim.
std::vector<Interval> parts(const Type& type, const Sharding& sharding, int d) {
  if (d < 0) return {Interval{}};
  const auto placement = DimPlacement::canonical(type.dim(d), sharding.tiles(d));
  std::vector<Interval> out;
  for (std::int64_t tile = 0; tile < placement.tiles; ++tile) out.push_back(placement.interval(tile));
  return out;
}

bool holds_none(const Interval& interval) { return interval.limit <= interval.start; }

std::int64_t tile_of(const Sharding& sharding, int d, std::int64_t position) {
  return d < 0 ? 0 : sharding.mesh.coordinate(position, at(sharding.dims, d).axes);
}

}  // namespace

std::vector<TileGrid> tile_grids(const Type& type, const Sharding& sharding) {
  constexpr int kMostDims = 3;
  require(type.is_array() && type.ndim() <= kMostDims, "only tensors of at most 3 dims can be drawn, got {}", type);
  require(sharding.is_tiled(), "only tilings can be drawn, got {}", sharding);
  const int column_dim = type.ndim() - 1, row_dim = type.ndim() - 2, outer_dim = type.ndim() - 3;
  const auto outer = parts(type, sharding, std::max(outer_dim, -1));
  TileGrid empty;
  empty.rows = parts(type, sharding, std::max(row_dim, -1));
  empty.columns = parts(type, sharding, column_dim);
  using Devices = std::vector<std::int64_t>;
  std::vector<std::vector<std::vector<Devices>>> devices(
      outer.size(), std::vector<std::vector<Devices>>(empty.rows.size(), std::vector<Devices>(empty.columns.size())));
  for (std::int64_t p = 0; p < sharding.mesh.device_count(); ++p) {
    auto& row = at(at(devices, tile_of(sharding, outer_dim, p)), tile_of(sharding, row_dim, p));
    at(row, tile_of(sharding, column_dim, p)).push_back(sharding.mesh.device_at(p));
  }
  std::vector<TileGrid> out;
  for (std::size_t o = 0; o < outer.size(); ++o) {
    TileGrid& grid = out.emplace_back(empty);
    if (outer_dim >= 0) grid.title = fmt::format("[{}:{}]", outer[o].start, outer[o].limit);
    for (std::size_t r = 0; r < devices[o].size(); ++r) {
      auto& labels = grid.labels.emplace_back();
      auto& firsts = grid.first_devices.emplace_back();
      for (std::size_t c = 0; c < devices[o][r].size(); ++c) {
        Devices& cell = devices[o][r][c];
        std::sort(cell.begin(), cell.end());
        const bool is_empty = (outer_dim >= 0 && holds_none(outer[o])) || (row_dim >= 0 && holds_none(empty.rows[r])) ||
                              (column_dim >= 0 && holds_none(empty.columns[c]));
        labels.push_back(fmt::format("{}{}", fmt::join(cell, ","), is_empty ? " (empty)" : ""));
        firsts.push_back(is_empty ? kNoDevice : static_cast<int>(cell.front()));
      }
    }
  }
  return out;
}

}  // namespace tessera
