// SPDX-License-Identifier: Apache-2.0
// The search space of the reshard planner. Both shardings are expressed in common *units*: mesh axes that are split at
// every boundary that either sharding uses. A state assigns each unit to a position in a dim's list, to the partial
// set, or to neither (replicated).
//
//   {x+y,-} -> {y,-} on mesh<x=2, y=4>: units x, y; start dims[0]=[x y], goal dims[0]=[y]
#pragma once

#include <array>
#include <boost/container/static_vector.hpp>
#include <optional>
#include <vector>

#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera::reshard {

/// Appends axes to a list.
void append(std::vector<AxisRef>& all, const std::vector<AxisRef>& more);

inline constexpr int kMaxUnits = 16;
inline constexpr int kMaxSlots = kMaxUnits;  // a sharding of more dims needs more units

/// One dim of a state: its units, major to minor, and the length of a tile. Tile i starts at i * length.
struct DimState {
  std::int64_t length = 0;
  boost::container::static_vector<std::uint8_t, kMaxUnits> units;
  [[nodiscard]] int count() const { return static_cast<int>(units.size()); }
  void push(int unit) { units.push_back(static_cast<std::uint8_t>(unit)); }
  void pop(int n) { units.resize(units.size() - static_cast<std::size_t>(n)); }
  friend bool operator==(const DimState&, const DimState&) = default;
};

struct State {
  std::array<DimState, kMaxSlots> dims{};
  std::uint16_t partial = 0;  // bit per unit
  bool to_order = false;      // the devices are already in the target mesh's order
  bool to_reduction = false;  // `partial` has the target's reduction (if it differs from the source's)
  friend bool operator==(const State&, const State&) = default;
};
struct StateHash {
  std::size_t operator()(const State& state) const;
};

struct Space {
  Type global;
  Mesh mesh;                        // the source's mesh; its sub-axes express both shardings
  std::optional<Mesh> other_order;  // the same axes in the target's device order, if it differs
  std::vector<AxisRef> units;
  std::vector<AxisRef> manual;
  Reduction from_reduction = Reduction::kSum;
  Reduction to_reduction = Reduction::kSum;
  std::vector<int> dims;                  // slot -> dim of the array; the dims that the search may shard
  Dims sizes;                             // slot -> global size
  std::int64_t rest_bytes = 1;            // bytes of one element times the sizes of all other dims
  std::vector<std::int64_t> tile_counts;  // possible tile counts above 1
  State start;
  State goal;
  std::vector<Link> links;  // unit -> link of its axis; empty on a uniform topology
  bool idle_units = true;   // may shard a dim temporarily along units that neither start nor goal uses

  [[nodiscard]] int slots() const { return static_cast<int>(dims.size()); }
  [[nodiscard]] int unit_count() const { return static_cast<int>(units.size()); }
  [[nodiscard]] std::int64_t unit_size(int unit) const { return units[static_cast<std::size_t>(unit)].size; }
  [[nodiscard]] std::int64_t size_of(std::uint16_t set) const;
  [[nodiscard]] std::int64_t tiles(const DimState& dim) const;
  [[nodiscard]] std::uint16_t used(const State& state) const;
  /// Bytes of one device's buffer.
  [[nodiscard]] std::int64_t bytes(const State& state) const;
  /// Whether the parts of a slot are contiguous in a device's buffer, so that collectives need no second buffer.
  [[nodiscard]] bool is_leading(const State& state, int slot) const;
  /// The bytes that one device receives when a slot loses its last units, which make `tiles` tiles.
  [[nodiscard]] std::int64_t gather_bytes(const State& state, int slot, std::int64_t tiles) const;
  [[nodiscard]] std::vector<AxisRef> axes(const DimState& dim) const;
  [[nodiscard]] std::vector<AxisRef> axes(std::uint16_t set) const;
  [[nodiscard]] const Mesh& mesh_of(const State& state) const;
  [[nodiscard]] Sharding sharding(const State& state) const;
  [[nodiscard]] std::vector<DimPlacement> placement(const State& state) const;
  /// The candidate tile lengths for `tiles` tiles of a slot: those whose boundaries are among a canonical tiling's.
  [[nodiscard]] std::vector<std::int64_t> lengths(int slot, std::int64_t tiles) const;
};

/// Whether to gather a dim by a sum, in which each device contributes its tile among zeros. Devices then receive fewer
/// bytes than in a gather if most tiles are empty, as for 13 rows on 48 devices.
bool gathers_by_sum(DType dtype, std::int64_t size, std::int64_t length, std::int64_t tiles);

/// The axes of a mesh, split at all boundaries of `refs`, without parts of size 1; null if the boundaries do not nest.
std::optional<std::vector<AxisRef>> common_units(const Mesh& mesh, const std::vector<AxisRef>& refs);

/// `to` expressed in sub-axes of `mesh` so that each position has the same device; null if that is impossible.
std::optional<Sharding> in_axes_of(const Mesh& mesh, const Sharding& to);
/// The same for equal positions instead of equal devices.
std::optional<Sharding> in_positions_of(const Mesh& mesh, const Sharding& to);

/// The space of two tiled shardings; null if there are no common units or too many.
std::optional<Space> make_space(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology);

/// The parts of `axes` after the first `tiles` tiles: the axes to add to a dim of `tiles` tiles so that it is sharded
/// over all of `axes`.
std::vector<AxisRef> minor_axes(const std::vector<AxisRef>& axes, std::int64_t tiles);
/// Replaces each axis by the units of which it consists.
std::vector<AxisRef> split_axes(const std::vector<AxisRef>& axes, const std::vector<AxisRef>& units);

}  // namespace tessera::reshard
