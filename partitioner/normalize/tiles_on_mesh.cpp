// SPDX-License-Identifier: Apache-2.0
#include "normalize/tiles_on_mesh.h"

#include <map>

#include "tessera/base/text.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

/// The parts of the axes of a mesh that no dim uses yet.
class FreeParts {
 public:
  explicit FreeParts(const Mesh& mesh) : mesh_(mesh), used_(mesh.axes().size(), 1) {}

  // The product of all axes is that of all tiles and replicas, so a prime factor of the tiles always divides an axis.
  AxisRef take(std::int64_t prime) {
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      const std::int64_t used = at(used_, axis);
      if (at(mesh_.axes(), axis).size / used % prime != 0) continue;
      at(used_, axis) *= prime;
      return {axis, used, prime};
    }
    throw InternalError(fmt::format("no axis of {} has a free part of {} devices", mesh_.str(), prime));
  }

 private:
  const Mesh& mesh_;
  std::vector<std::int64_t> used_;  // by axis: the size of the parts that were taken
};

Sharding with_equal_tiles(const Sharding& sharding, const Mesh& mesh) {
  Sharding out = Sharding::replicated(mesh, sharding.ndim());
  FreeParts parts(mesh);
  for (int d = 0; d < sharding.ndim(); ++d) {
    std::vector<AxisRef> axes;
    std::int64_t rest = sharding.tiles(d);
    for (std::int64_t prime = 2; rest > 1; ++prime)
      for (; rest % prime == 0; rest /= prime) axes.push_back(parts.take(prime));
    at(out.dims, d).axes = merged_axes(axes);
  }
  return out;
}

using Tile = std::vector<std::int64_t>;  // start and limit along each dim

Tile tile_of(const Placement& placement, std::int64_t device) {
  Tile out;
  for (int d = 0; d < placement.sharding.ndim(); ++d) {
    const Interval interval = placement.interval(device, d);
    out.push_back(interval.start);
    out.push_back(interval.limit);
  }
  return out;
}

// A device that holds the right tile keeps it. Also keeping it is a move, since a device without one gets zeros.
SourceTargetPairs moves_between(const Type& global, const Sharding& from, const Sharding& to) {
  const Placement before = placement_of(global, from);
  const Placement after = placement_of(global, to);
  std::map<Tile, std::vector<std::int64_t>> sources;
  std::map<Tile, std::vector<std::int64_t>> targets;
  SourceTargetPairs out;
  for (std::int64_t device = 0; device < from.mesh.device_count(); ++device) {
    const Tile held = tile_of(before, device);
    const Tile wanted = tile_of(after, device);
    if (held == wanted) {
      out.pairs.emplace_back(device, device);
      continue;
    }
    sources[held].push_back(device);
    targets[wanted].push_back(device);
  }
  if (sources.empty()) return {};
  for (const auto& [tile, devices] : sources)
    for (int k = 0; k < isize(devices); ++k) out.pairs.emplace_back(at(devices, k), at(targets.at(tile), k));
  return out;
}

}  // namespace

TilesOnMesh tiles_on_mesh(const Type& global, const Sharding& sharding, const Mesh& mesh) {
  if (sharding.mesh == mesh) return {sharding, {}};
  if (auto same = to_axes(to_hlo(sharding), mesh, sharding.ndim())) return {*std::move(same), {}};
  Sharding other = with_equal_tiles(sharding, mesh);
  SourceTargetPairs moves = moves_between(global, other, sharding);
  return {std::move(other), std::move(moves)};
}

}  // namespace tessera
