// SPDX-License-Identifier: Apache-2.0
#include "reshard_planning/search_space.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::reshard {

void append(std::vector<AxisRef>& all, const std::vector<AxisRef>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

namespace {

std::vector<AxisRef> all_axes(const Sharding& sharding) {
  std::vector<AxisRef> out;
  for (const auto& dim : sharding.dims) append(out, dim.axes);
  append(out, sharding.partial);
  return out;
}

// The units that a sub-axis consists of, as indices.
std::vector<int> units_within(const std::vector<AxisRef>& units, const AxisRef& ref) {
  std::vector<int> out;
  for (int u = 0; u < isize(units); ++u) {
    const AxisRef& unit = at(units, u);
    if (unit.axis == ref.axis && unit.pre >= ref.pre && unit.pre * unit.size <= ref.pre * ref.size) out.push_back(u);
  }
  return out;
}

State state_of(const Space& space, const Sharding& sharding) {
  State state;
  for (int s = 0; s < space.slots(); ++s) {
    DimState& dim = at(state.dims, s);
    for (const AxisRef& ref : at(sharding.dims, at(space.dims, s)).axes)
      for (const int unit : units_within(space.units, ref)) dim.push(unit);
    dim.length = ceil_div(at(space.sizes, s), space.tiles(dim));
  }
  for (const AxisRef& ref : sharding.partial)
    for (const int unit : units_within(space.units, ref))
      state.partial = static_cast<std::uint16_t>(state.partial | 1U << unit);
  return state;
}

// Chooses the slots: the dims that either sharding uses, and other dims as long as the space stays small.
void choose_slots(Space& space, const Sharding& from, const Sharding& to) {
  std::vector<int> idle;
  for (int d = 0; d < space.global.ndim(); ++d) {
    const bool used = from.tiles(d) > 1 || to.tiles(d) > 1;
    if (used)
      space.dims.push_back(d);
    else
      idle.push_back(d);
  }
  constexpr int kSmall = 3;
  for (const int d : idle)
    if (space.unit_count() <= kSmall && space.slots() < kSmall && space.global.dim(d) > 1) space.dims.push_back(d);
  std::sort(space.dims.begin(), space.dims.end());
  space.rest_bytes = dtype_size(space.global.dtype());
  for (int d = 0; d < space.global.ndim(); ++d)
    if (std::find(space.dims.begin(), space.dims.end(), d) == space.dims.end()) space.rest_bytes *= space.global.dim(d);
  for (const int d : space.dims) space.sizes.push_back(space.global.dim(d));
}

// The tile counts that a dim may have: products of units. With many units, only those of source and target.
std::vector<std::int64_t> tile_counts_of(const Space& space, const Sharding& from, const Sharding& to) {
  constexpr int kFew = 4;
  std::vector<std::int64_t> counts{1};
  if (space.unit_count() <= kFew) {
    for (const AxisRef& unit : space.units)
      for (std::size_t i = counts.size(); i > 0; --i) counts.push_back(counts[i - 1] * unit.size);
  } else {
    for (const Sharding* end : {&from, &to})
      for (int d = 0; d < end->ndim(); ++d) counts.push_back(end->tiles(d));
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  counts.erase(counts.begin());  // 1
  return counts;
}

}  // namespace

std::size_t StateHash::operator()(const State& state) const {
  std::size_t seed = hash_mix(state.partial, (state.to_order ? 2U : 0U) + (state.to_reduction ? 1U : 0U));
  for (const DimState& dim : state.dims) {
    if (dim.length == 0 && dim.count() == 0) continue;
    std::size_t list = dim.count();
    for (int i = 0; i < dim.count(); ++i) list = list * 16 + at(dim.units, i);
    seed = hash_mix(hash_mix(seed, list), static_cast<std::size_t>(dim.length));
  }
  return seed;
}

std::int64_t Space::size_of(std::uint16_t set) const {
  std::int64_t size = 1;
  for (int u = 0; u < unit_count(); ++u)
    if ((set >> u & 1) != 0) size *= unit_size(u);
  return size;
}

std::int64_t Space::tiles(const DimState& dim) const {
  std::int64_t size = 1;
  for (int i = 0; i < dim.count(); ++i) size *= unit_size(at(dim.units, i));
  return size;
}

bool Space::is_leading(const State& state, int slot) const {
  Dims local = global.dims();
  for (int s = 0; s < slots(); ++s) at(local, at(dims, s)) = at(state.dims, s).length;
  return std::all_of(local.begin(), local.begin() + at(dims, slot), [](std::int64_t size) { return size == 1; });
}

std::uint16_t Space::used(const State& state) const {
  unsigned set = state.partial;
  for (int s = 0; s < slots(); ++s)
    for (int i = 0; i < at(state.dims, s).count(); ++i) set |= 1U << at(at(state.dims, s).units, i);
  return static_cast<std::uint16_t>(set);
}

bool gathers_by_sum(DType dtype, std::int64_t size, std::int64_t length, std::int64_t tiles) {
  return dtype != DType::kPred && length > 0 && 2 * ceil_div(size, length) < tiles;
}

std::int64_t Space::gather_bytes(const State& state, int slot, std::int64_t tiles) const {
  const DimState& dim = at(state.dims, slot);
  const std::int64_t operand = bytes(state);
  if (this->tiles(dim) == tiles && gathers_by_sum(global.dtype(), at(sizes, slot), dim.length, tiles))
    return 2 * (operand * ceil_div(at(sizes, slot), dim.length)) * (tiles - 1) / tiles;
  return operand * (tiles - 1);
}

std::int64_t Space::bytes(const State& state) const {
  std::int64_t out = rest_bytes;
  for (int s = 0; s < slots(); ++s) out *= at(state.dims, s).length;
  return out;
}

std::vector<AxisRef> Space::axes(const DimState& dim) const {
  std::vector<AxisRef> out;
  for (int i = 0; i < dim.count(); ++i) out.push_back(at(units, at(dim.units, i)));
  return merged_axes(out);
}

std::vector<AxisRef> Space::axes(std::uint16_t set) const {
  std::vector<AxisRef> out;
  for (int u = 0; u < unit_count(); ++u)
    if ((set >> u & 1) != 0) out.push_back(at(units, u));
  return merged_axes(out);
}

const Mesh& Space::mesh_of(const State& state) const { return state.to_order && other_order ? *other_order : mesh; }

Sharding Space::sharding(const State& state) const {
  Sharding out = Sharding::replicated(mesh_of(state), global.ndim());
  for (int s = 0; s < slots(); ++s) at(out.dims, at(dims, s)).axes = axes(at(state.dims, s));
  out.partial = axes(state.partial);
  if (out.is_partial()) out.reduction = state.to_reduction ? to_reduction : from_reduction;
  out.manual = manual;
  return out;
}

std::vector<DimPlacement> Space::placement(const State& state) const {
  std::vector<DimPlacement> out;
  for (const auto size : global.dims()) out.push_back(DimPlacement::canonical(size, 1));
  for (int s = 0; s < slots(); ++s) {
    const DimState& dim = at(state.dims, s);
    at(out, at(dims, s)) = {at(sizes, s), tiles(dim), dim.length, 0, dim.length};
  }
  return out;
}

std::vector<std::int64_t> Space::lengths(int slot, std::int64_t count) const {
  const auto size = at(sizes, slot);
  if (count == 1) return {size};
  std::vector<std::int64_t> out{ceil_div(size, count)};
  for (const auto other : tile_counts) {
    const auto canonical = ceil_div(size, other);
    std::int64_t length = 0;
    if (other % count == 0) length = canonical * (other / count);
    if (count % other == 0 && canonical % (count / other) == 0) length = canonical / (count / other);
    if (length > 0 && std::find(out.begin(), out.end(), length) == out.end()) out.push_back(length);
  }
  return out;
}

std::vector<AxisRef> minor_axes(const std::vector<AxisRef>& axes, std::int64_t tiles) {
  std::vector<AxisRef> out;
  for (AxisRef ref : axes) {
    if (tiles % ref.size == 0) {
      tiles /= ref.size;
      continue;
    }
    ensure(ref.size % tiles == 0, "axes of sizes {} and {} do not nest", ref.size, tiles);
    out.push_back({ref.axis, ref.pre * tiles, ref.size / tiles});
    tiles = 1;
  }
  return out;
}

std::vector<AxisRef> split_axes(const std::vector<AxisRef>& axes, const std::vector<AxisRef>& units) {
  std::vector<AxisRef> out;
  for (const AxisRef& ref : axes)
    for (const AxisRef& unit : units)
      if (unit.axis == ref.axis && unit.pre >= ref.pre && unit.pre * unit.size <= ref.pre * ref.size)
        out.push_back(unit);
  return out;
}

std::optional<std::vector<AxisRef>> common_units(const Mesh& mesh, const std::vector<AxisRef>& refs) {
  std::vector<AxisRef> units;
  for (int a = 0; a < mesh.axis_count(); ++a) {
    std::vector<std::int64_t> prefixes{1, at(mesh.axes(), a).size};
    for (const AxisRef& ref : refs) {
      if (ref.axis != a) continue;
      prefixes.push_back(ref.pre);
      prefixes.push_back(ref.pre * ref.size);
    }
    std::sort(prefixes.begin(), prefixes.end());
    prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
    for (std::size_t i = 1; i < prefixes.size(); ++i) {
      if (prefixes[i] % prefixes[i - 1] != 0) return std::nullopt;
      units.push_back({a, prefixes[i - 1], prefixes[i] / prefixes[i - 1]});
    }
  }
  return units;
}

std::optional<Space> make_space(const Type& global, const Sharding& from, const Sharding& to,
                                const Topology& topology) {
  Space space;
  space.global = global;
  space.mesh = from.mesh;
  space.manual = from.manual;
  space.from_reduction = from.reduction;
  space.to_reduction = to.reduction;
  std::optional<Sharding> target = in_axes_of(from.mesh, to);
  if (!target) {
    target = in_positions_of(from.mesh, to);
    if (target) space.other_order = Mesh(from.mesh.axes(), to.mesh.device_order(), to.mesh.name());
  }
  if (!target) return std::nullopt;
  std::vector<AxisRef> refs = all_axes(from);
  append(refs, all_axes(*target));
  std::vector<AxisRef> fixed = from.manual;
  append(refs, fixed);
  auto units = common_units(from.mesh, refs);
  if (!units) return std::nullopt;
  std::erase_if(*units, [&](const AxisRef& unit) {
    return std::any_of(fixed.begin(), fixed.end(),
                       [&](const AxisRef& ref) { return !units_within({unit}, ref).empty(); });
  });
  if (isize(*units) > kMaxUnits)  // units that neither sharding uses stay replicated
    std::erase_if(*units, [&](const AxisRef& unit) {
      return std::none_of(refs.begin(), refs.end(),
                          [&](const AxisRef& ref) { return !units_within({unit}, ref).empty(); });
    });
  if (isize(*units) > kMaxUnits) return std::nullopt;
  space.units = std::move(*units);
  if (!topology.is_uniform())
    for (const AxisRef& unit : space.units) space.links.push_back(topology.link(at(from.mesh.axes(), unit.axis).name));
  choose_slots(space, from, *target);
  if (space.slots() > kMaxSlots) return std::nullopt;
  space.tile_counts = tile_counts_of(space, from, *target);
  space.start = state_of(space, from);
  space.goal = state_of(space, *target);
  space.goal.to_order = space.other_order.has_value();
  space.goal.to_reduction = space.goal.partial != 0 && from.is_partial() && from.reduction != to.reduction;
  if (!from.is_partial()) space.from_reduction = to.reduction;
  return space;
}

}  // namespace tessera::reshard
