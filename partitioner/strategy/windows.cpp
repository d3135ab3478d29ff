// SPDX-License-Identifier: Apache-2.0
#include "strategy/windows.h"

#include <algorithm>
#include <numeric>

#include "localize/halo_exchange.h"
#include "tessera/base/text.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera {
namespace {

std::int64_t floor_of(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return -floor_of(-a, b); }

// Tiles that begin at multiples of this number are aligned equally with the operands' dilations.
std::int64_t alignment_of(const FactorMap& map, int factor) {
  std::int64_t out = 1;
  for (const Window& window : map.windows)
    if (window.factor == factor) out = std::lcm(out, window.dilation / std::gcd(window.stride, window.dilation));
  return out;
}

bool is_windowed(const FactorMap& map, int factor) {
  return std::any_of(map.windows.begin(), map.windows.end(), [&](const Window& w) { return w.factor == factor; });
}

// The elements that one tile reads of an operand dim.
struct Reading {
  std::int64_t start = 0;   // the first element at or after the first position
  std::int64_t length = 0;  // elements up to the last position
  std::int64_t before = 0;  // positions before the first element
  std::int64_t after = 0;   // positions after the last element
};
Reading reading_of(const Window& window, std::int64_t size, std::int64_t first, std::int64_t count) {
  const auto begin = window.reversed ? size - first - count : first;
  const auto position = begin * window.stride - window.low;
  const auto positions = (count - 1) * window.stride + window.extent;
  Reading out;
  out.start = ceil_of(position, window.dilation);
  out.before = out.start * window.dilation - position;
  out.length = floor_of(position + positions - 1, window.dilation) - out.start + 1;
  if (out.length <= 0) out.length = 1;
  out.after = positions - out.before - (out.length - 1) * window.dilation - 1;
  return out;
}

Interval clipped(std::int64_t start, std::int64_t limit, std::int64_t size) {
  const auto low = std::clamp(start, std::int64_t{0}, size);
  return {low, std::max(low, std::clamp(limit, std::int64_t{0}, size))};
}

// The reading for the wanted indices alone. If a window follows the alignment of another window, it reads that many
// elements for each element that the other reads:
//
//   the windows of select-and-scatter's operand are adjacent, one complete window for each element of the source
Reading wanted_reading(const FactorMap& map, const Window& window, const FactorTiling& tiling, std::int64_t tile,
                       std::int64_t wanted) {
  const auto size = at(map.factors, window.factor).size;
  const auto alignment = alignment_of(map, window.factor);
  const auto is_aligned = [&](const Window& w) {
    return w.factor == window.factor && w.dilation / std::gcd(w.stride, w.dilation) == alignment;
  };
  if (is_aligned(window)) return reading_of(window, size, tile * tiling.length, wanted);
  Reading out = reading_of(window, size, at(tiling.first, tile), tiling.count);
  const auto leading = std::find_if(map.windows.begin(), map.windows.end(), is_aligned);
  if (leading == map.windows.end()) return out;
  const Reading all = reading_of(*leading, size, at(tiling.first, tile), tiling.count);
  const Reading real = reading_of(*leading, size, tile * tiling.length, wanted);
  const auto before = std::max<std::int64_t>(0, real.start - all.start);
  const auto after = std::max<std::int64_t>(0, all.start + all.length - real.start - real.length);
  out.start += before * alignment;
  out.length -= (before + after) * alignment;
  return out;
}

Halo halo_of(const FactorMap& map, const Window& window, std::int64_t operand_size, const Axes& axes) {
  const Factor& factor = at(map.factors, window.factor);
  const auto tiles = axes_size(axes);
  const FactorTiling tiling = tiling_of(map, window.factor, tiles);
  Halo halo{.operand = window.operand,
            .dim = window.dim,
            .axes = axes,
            .before = DimPlacement::canonical(operand_size, tiles),
            .start = {},
            .length = 0,
            .needed = {},
            .kept = {}};
  bool reads_before = false;
  bool reads_past_end = false;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const Reading all = reading_of(window, factor.size, at(tiling.first, tile), tiling.count);
    ensure(tile == 0 || (halo.length == all.length && halo.low == all.before), "tiles read windows of unequal form");
    halo.length = all.length;
    halo.low = all.before;
    halo.high = all.after;
    halo.start.push_back(all.start);
    const auto wanted = std::clamp(factor.size - tile * tiling.length, std::int64_t{0}, tiling.length);
    Interval needed{0, 0};
    bool outside = false;
    if (wanted > 0) {
      const Reading real = wanted_reading(map, window, tiling, tile, wanted);
      reads_before = reads_before || real.start < 0;
      reads_past_end = reads_past_end || real.start + real.length > operand_size;
      outside = real.start < 0 || real.start + real.length > operand_size;
      needed = clipped(real.start, real.start + real.length, operand_size);
    }
    const bool slides = factor.kind == FactorKind::kReduce;
    halo.needed.push_back(needed);
    halo.kept.push_back(slides ? needed : Interval{0, operand_size});
    if (slides) outside = needed != Interval{all.start, all.start + all.length};
    halo.reads_outside = halo.reads_outside || outside;
  }
  if (factor.kind == FactorKind::kReduce) return halo;
  for (std::size_t tile = 0; tile < halo.kept.size(); ++tile) {
    if (!reads_before) halo.kept[tile].start = std::min<std::int64_t>(halo.start[tile], 0);
    if (!reads_past_end) halo.kept[tile].limit = std::max(halo.start[tile] + halo.length, operand_size);
  }
  return halo;
}

// Whether a result dim consists of this factor alone, so that the strategy can be read from the sharding of the
// results.
bool is_read_off_results(const FactorMap& map, int factor) {
  return std::any_of(map.results.begin(), map.results.end(), [&](const TensorFactors& result) {
    return std::find(result.begin(), result.end(), DimFactors{factor}) != result.end();
  });
}

}  // namespace

bool FactorTiling::is_exact() const {
  return count == length && std::all_of(skip.begin(), skip.end(), [](std::int64_t s) { return s == 0; });
}

bool has_windows(const FactorMap& map, int factor) {
  std::vector<std::pair<int, int>> windowed;  // pairs of operand and dim
  for (const Window& window : map.windows)
    if (window.factor == factor) windowed.emplace_back(window.operand, window.dim);
  std::sort(windowed.begin(), windowed.end());  // a concatenation has hundreds
  for (int i = 0; i < isize(map.operands); ++i)
    for (int d = 0; d < isize(at(map.operands, i)); ++d) {
      const auto& dim = at(at(map.operands, i), d);
      if (std::find(dim.begin(), dim.end(), factor) == dim.end()) continue;
      if (!std::binary_search(windowed.begin(), windowed.end(), std::pair(i, d))) return false;
    }
  return !windowed.empty();
}

bool windows_fit(const FactorMap& map, int factor, std::int64_t tiles) {
  const bool reversed = std::any_of(map.windows.begin(), map.windows.end(),
                                    [&](const Window& w) { return w.factor == factor && w.reversed; });
  if (at(map.factors, factor).size == 0 && is_windowed(map, factor)) return false;
  if (at(map.factors, factor).kind != FactorKind::kReduce && !reversed) return true;
  return alignment_of(map, factor) == 1 || tiling_of(map, factor, tiles).is_exact();
}

FactorTiling tiling_of(const FactorMap& map, int factor, std::int64_t tiles) {
  const auto alignment = alignment_of(map, factor);
  FactorTiling out;
  out.length = ceil_div(at(map.factors, factor).size, tiles);
  out.count = out.length;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const auto start = tile * out.length;
    out.first.push_back(start / alignment * alignment);
    out.skip.push_back(start - out.first.back());
    out.count = std::max(out.count, out.skip.back() + out.length);
  }
  if (alignment > 1 && tiles > 1) out.count = ceil_div(out.count, alignment) * alignment;
  return out;
}

std::vector<Halo> halos_of(const FactorMap& map, const std::vector<Type>& operands, const Strategy& strategy) {
  std::vector<Halo> out;
  for (const Window& window : map.windows) {
    const Axes& axes = at(strategy, window.factor);
    if (axes_size(axes) == 1) continue;
    out.push_back(halo_of(map, window, at(operands, window.operand).dim(window.dim), axes));
  }
  return out;
}

Sharding needed_operand(const Mesh& mesh, const FactorMap& map, int operand, const Type& type, const Strategy& strategy,
                        const Sharding& current, const Topology& topology) {
  Sharding sharded = unproject(mesh, map, at(map.operands, operand), strategy);
  if (!current.is_tiled() || current.ndim() != sharded.ndim() || current.is_partial()) return sharded;
  Sharding unsharded = sharded;
  for (const Window& window : map.windows) {
    if (window.operand != operand || window.extent == 1 || current.tiles(window.dim) > 1) continue;
    if (at(map.factors, window.factor).kind == FactorKind::kPermute && is_read_off_results(map, window.factor))
      at(unsharded.dims, window.dim).axes.clear();
  }
  if (unsharded == sharded) return sharded;
  return reshard_cost(type, current, unsharded, topology) > 0 ? sharded : unsharded;
}

HaloCost halo_cost(const Mesh& mesh, const FactorMap& map, const std::vector<Type>& operands, const Strategy& strategy,
                   const std::vector<Sharding>& current, const Topology& topology) {
  HaloCost cost;
  std::vector<Type> locals;
  for (int i = 0; i < isize(operands); ++i)
    locals.push_back(shard_type(at(operands, i), unproject(mesh, map, at(map.operands, i), strategy)));
  for (const Halo& halo : halos_of(map, operands, strategy)) {
    Type& local = at(locals, halo.operand);
    Dims dims = local.dims();
    const Sharding needed = needed_operand(mesh, map, halo.operand, at(operands, halo.operand), strategy,
                                           at(current, halo.operand), topology);
    const bool is_at_hand = needed.tiles(halo.dim) == 1;
    const auto row = is_at_hand || local.dim(halo.dim) == 0 ? 0 : local.byte_size() / local.dim(halo.dim);
    const reshard::RowCount received = is_at_hand ? reshard::RowCount{} : reshard::count_window(halo);
    cost.bytes += received.rows * row;
    if (!topology.is_uniform()) {
      std::vector<std::string> names;
      for (const AxisRef& axis : halo.axes) names.push_back(at(mesh.axes(), axis.axis).name);
      cost.seconds += exchange_seconds(topology.slowest(names), received.permutes, received.rows * row);
    }
    at(dims, halo.dim) = halo.length;
    local = Type::array(local.dtype(), std::move(dims));
  }
  for (const Type& local : locals) cost.operand_bytes += local.byte_size();
  return cost;
}

}  // namespace tessera
