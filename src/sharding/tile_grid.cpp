// SPDX-License-Identifier: Apache-2.0
#include "tile_grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/sharding/visualize.h"

namespace tessera {
namespace {

using Devices = std::vector<std::int64_t>;

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

/// One combination of tiles of the dims before the last two.
struct Outer {
  std::vector<Interval> intervals;
  bool is_empty = false;
};

// The combinations in row-major order.
std::vector<Outer> outer_tiles(const Type& type, const Sharding& sharding) {
  std::vector<Outer> out{{}};
  for (int d = 0; d < type.ndim() - 2; ++d) {
    std::vector<Outer> finer;
    for (const Outer& outer : out)
      for (const Interval& interval : parts(type, sharding, d)) {
        finer.push_back(outer);
        finer.back().intervals.push_back(interval);
        finer.back().is_empty = outer.is_empty || holds_none(interval);
      }
    out = std::move(finer);
    require(isize(out) <= kMostPictures, "{} of {} would need {} pictures, more than {}", sharding, type, out.size(),
            kMostPictures);
  }
  return out;
}

std::string title_of(const Outer& outer) {
  std::vector<std::string> texts;
  for (const Interval& interval : outer.intervals)
    texts.push_back(fmt::format("{}:{}", interval.start, interval.limit));
  return texts.empty() ? "" : fmt::format("[{}]", fmt::join(texts, ", "));
}

std::int64_t outer_of(const Type& type, const Sharding& sharding, std::int64_t position) {
  std::int64_t out = 0;
  for (int d = 0; d < type.ndim() - 2; ++d) out = out * sharding.tiles(d) + tile_of(sharding, d, position);
  return out;
}

void add_cell(TileGrid& grid, Devices devices, bool is_empty) {
  std::sort(devices.begin(), devices.end());
  grid.labels.back().push_back(fmt::format("{}{}", fmt::join(devices, ","), is_empty ? " (empty)" : ""));
  grid.first_devices.back().push_back(is_empty ? kNoDevice : static_cast<int>(devices.front()));
}

}  // namespace

std::vector<TileGrid> tile_grids(const Type& type, const Sharding& sharding) {
  require(type.is_array(), "only arrays can be drawn, got {}", type);
  require(sharding.is_tiled(), "only tilings can be drawn, got {}", sharding);
  const int column_dim = type.ndim() - 1, row_dim = type.ndim() - 2;
  const auto outer = outer_tiles(type, sharding);
  TileGrid empty;
  empty.rows = parts(type, sharding, std::max(row_dim, -1));
  empty.columns = parts(type, sharding, column_dim);
  std::vector<std::vector<std::vector<Devices>>> devices(
      outer.size(), std::vector<std::vector<Devices>>(empty.rows.size(), std::vector<Devices>(empty.columns.size())));
  for (std::int64_t p = 0; p < sharding.mesh.device_count(); ++p) {
    auto& row = at(at(devices, outer_of(type, sharding, p)), tile_of(sharding, row_dim, p));
    at(row, tile_of(sharding, column_dim, p)).push_back(sharding.mesh.device_at(p));
  }
  std::vector<TileGrid> out;
  for (std::size_t o = 0; o < outer.size(); ++o) {
    TileGrid& grid = out.emplace_back(empty);
    grid.title = title_of(outer[o]);
    for (std::size_t r = 0; r < devices[o].size(); ++r) {
      grid.labels.emplace_back();
      grid.first_devices.emplace_back();
      const bool is_empty_row = outer[o].is_empty || (row_dim >= 0 && holds_none(empty.rows[r]));
      for (std::size_t c = 0; c < devices[o][r].size(); ++c)
        add_cell(grid, std::move(devices[o][r][c]), is_empty_row || (column_dim >= 0 && holds_none(empty.columns[c])));
    }
  }
  return out;
}

}  // namespace tessera
