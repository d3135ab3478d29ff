// SPDX-License-Identifier: Apache-2.0
#include "random/sharding_kinds.h"

#include <algorithm>

namespace tessera::testing {
namespace {

using Kind = ShardingKind;

constexpr std::string_view kNames[] = {"replicated",   "one axis", "axes on a dim", "several dims", "sub-axis",
                                       "partly repl.", "uneven",   "maximal",       "unreduced",    "device order",
                                       "open dims",    "unknown",  "shard_as",      "shard_like",   "tuple",
                                       "manual",       "subgroup"};

std::int64_t devices_of(Dice& dice, Kind kind) {
  if (kind == Kind::kSubAxis) return dice.pick(std::vector<std::int64_t>{4, 6, 8, 8});
  const bool several = kind == Kind::kSeveralAxes || kind == Kind::kSeveralDims || kind == Kind::kManualSubgroup ||
                       kind == Kind::kPartlyReplicated;
  if (several) return dice.pick(std::vector<std::int64_t>{4, 6, 6, 8});
  if (kind == Kind::kMaximal && dice.one_in(8)) return 1;
  return dice.pick(std::vector<std::int64_t>{2, 3, 4, 4, 5, 6, 6, 7, 8, 8});
}

// Splits a device count into factors in random order; each is the size of an axis.
std::vector<MeshAxis> axes_of(Dice& dice, std::int64_t devices, std::size_t fewest, std::size_t most) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t rest = devices; rest > 1;) {
    std::int64_t f = 2;
    while (rest % f != 0) ++f;
    sizes.insert(sizes.begin() + dice.below(isize(sizes) + 1), f);
    rest /= f;
  }
  while (sizes.size() > fewest && (sizes.size() > most || dice.one_in(2))) {
    sizes[sizes.size() - 2] *= sizes.back();
    sizes.pop_back();
  }
  std::vector<MeshAxis> axes;
  for (const auto size : sizes) axes.push_back({std::string(1, static_cast<char>('a' + isize(axes))), size});
  if (axes.empty()) axes.push_back({"a", devices});
  return axes;
}

std::vector<std::int64_t> order_of(Dice& dice, std::int64_t devices) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 0; d < devices; ++d) out.insert(out.begin() + dice.below(isize(out) + 1), d);
  if (devices > 1 && std::is_sorted(out.begin(), out.end())) std::swap(out[0], out[1]);
  return out;
}

}  // namespace

std::string_view kind_name(Kind kind) { return kNames[static_cast<int>(kind)]; }

ShardingKinds kinds_of(const Type& type, const Sharding& sharding) {
  ShardingKinds out;
  const auto set = [&](Kind kind, bool yes) {
    if (yes) out.set(static_cast<std::size_t>(kind));
  };
  set(Kind::kMaximal, sharding.kind == Sharding::Kind::kMaximal);
  set(Kind::kUnknown, sharding.kind == Sharding::Kind::kUnknown);
  set(Kind::kManual, sharding.kind == Sharding::Kind::kManual);
  if (!sharding.is_tiled()) return out;
  set(Kind::kReplicated, sharding.is_replicated());
  set(Kind::kUnreduced, sharding.is_partial());
  const auto devices = sharding.mesh.device_count();
  const auto manual = axes_size(sharding.manual);
  if (manual > 1) set(manual == devices ? Kind::kManual : Kind::kManualSubgroup, true);
  int tiled = 0;
  std::int64_t tiles = 1;
  for (int d = 0; d < sharding.ndim(); ++d) {
    const auto& dim = at(sharding.dims, d);
    const auto axes = merged_axes(dim.axes);
    set(Kind::kOpen, dim.open);
    set(Kind::kSeveralAxes, axes.size() > 1);
    set(Kind::kUneven, type.is_array() && type.dim(d) % sharding.tiles(d) != 0);
    for (const auto& axis : axes) set(Kind::kSubAxis, axis.size != at(sharding.mesh.axes(), axis.axis).size);
    set(Kind::kOneAxis, axes.size() == 1);
    tiled += axes.empty() ? 0 : 1;
    tiles *= sharding.tiles(d);
  }
  set(Kind::kSeveralDims, tiled > 1);
  set(Kind::kPartlyReplicated, tiles > 1 && tiles * axes_size(sharding.partial) * manual < devices);
  set(Kind::kDeviceOrder, tiles > 1 && !sharding.mesh.device_order().empty());
  return out;
}

ShardingKinds kinds_of(const Instruction& instruction) {
  ShardingKinds out;
  if (!instruction.sharding) return out;
  const auto leaves = instruction.type.leaves();
  for (int i = 0; i < isize(leaves); ++i) {
    const auto& all = *instruction.sharding;
    out |= kinds_of(at(leaves, i), at(all, all.size() == 1 ? 0 : i));
  }
  if (instruction.sharding->size() > 1) out.set(static_cast<std::size_t>(Kind::kTuple));
  if (const auto* suffix = instruction.frontend_attribute(kSuffixAttribute))
    out.set(static_cast<std::size_t>(suffix->starts_with(" shard_as") ? Kind::kShardAs : Kind::kShardLike));
  return out;
}

RandomShardings::RandomShardings(Dice& dice, Kind kind) : dice_(dice) {
  const auto devices = devices_of(dice, kind);
  const bool several = kind == Kind::kSeveralAxes || kind == Kind::kSeveralDims || kind == Kind::kManualSubgroup;
  auto axes = axes_of(dice, devices, several ? 2 : 1, kind == Kind::kSubAxis ? 1 : 3);
  const bool mixed = dice.one_in(8);
  mesh_ = Mesh(std::move(axes), mixed ? order_of(dice, devices) : std::vector<std::int64_t>());
  ordered_ = Mesh(axes_of(dice, devices, 1, 3), order_of(dice, devices), "ordered");
}

std::vector<AxisRef> RandomShardings::manual_axes(bool all) {
  std::vector<AxisRef> out;
  for (int a = 0; a < mesh_.axis_count(); ++a) out.push_back(mesh_.full_axis(a));
  while (!all && out.size() > 1) {
    out.erase(out.begin() + dice_.below(isize(out)));
    all = dice_.one_in(2);
  }
  return out;
}

Sharding RandomShardings::tiled(int ndim, const Mesh& mesh, const std::vector<AxisRef>& manual) {
  Sharding out = Sharding::replicated(mesh, ndim);
  out.manual = manual;
  std::vector<AxisRef> axes;
  for (int a = 0; a < mesh.axis_count(); ++a)
    if (!overlaps_any(manual, mesh.full_axis(a)))
      axes.insert(axes.begin() + dice_.below(isize(axes) + 1), mesh.full_axis(a));
  for (const AxisRef& axis : axes) {
    if (ndim == 0 || dice_.one_in(8)) continue;
    const auto part = axis.size % 2 == 0 ? 2 : 3;
    auto& dim = at(out.dims, dice_.below(ndim)).axes;
    if (axis.size % part == 0 && axis.size > part && dice_.one_in(3)) {
      const std::int64_t rest = axis.size / part;
      const bool minor = dice_.one_in(2);
      const AxisRef major_part{axis.axis, 1, part};
      const AxisRef minor_part{axis.axis, part, rest};
      dim.push_back(minor ? minor_part : major_part);
      if (dice_.one_in(2)) at(out.dims, dice_.below(ndim)).axes.push_back(minor ? major_part : minor_part);
    } else {
      dim.push_back(axis);
    }
  }
  for (auto& dim : out.dims) dim.axes = merged_axes(dim.axes);
  return out;
}

// Makes the sharding partial over an axis that is still free. Returns false if there is none.
bool RandomShardings::add_partial(Sharding& sharding, DType dtype) {
  if (dtype == DType::kPred) return false;
  const auto used = sharding.used_axes();
  for (int a = 0; a < sharding.mesh.axis_count(); ++a) {
    const AxisRef axis = sharding.mesh.full_axis(a);
    if (axis.size == 1 || overlaps_any(used, axis)) continue;
    sharding.partial = {axis};
    return true;
  }
  return false;
}

Sharding RandomShardings::replicated(int ndim, const std::vector<AxisRef>& manual) const {
  Sharding out = Sharding::replicated(mesh_, ndim);
  out.manual = manual;
  return out;
}

Sharding RandomShardings::drawn(const Type& leaf, Kind kind, const std::vector<AxisRef>& manual) {
  const int ndim = leaf.is_array() ? leaf.ndim() : 0;
  switch (kind) {
    case Kind::kReplicated: return replicated(ndim, manual);
    case Kind::kMaximal: return Sharding::maximal(mesh_, dice_.below(mesh_.device_count()));
    case Kind::kUnknown: {
      Sharding out;
      out.kind = Sharding::Kind::kUnknown;
      out.mesh = mesh_;
      return out;
    }
    case Kind::kUnreduced: {
      Sharding out = tiled(ndim, mesh_, manual);
      if (leaf.is_array() && add_partial(out, leaf.dtype())) return out;
      out = replicated(ndim, manual);
      if (leaf.is_array()) add_partial(out, leaf.dtype());
      return out;
    }
    case Kind::kDeviceOrder: return tiled(ndim, manual.empty() ? ordered_ : mesh_, manual);
    case Kind::kOpen: {
      Sharding out = tiled(ndim, mesh_, manual);
      for (auto& dim : out.dims) dim.open = dice_.one_in(2);
      return out;
    }
    default: return tiled(ndim, mesh_, manual);
  }
}

std::optional<Sharding> RandomShardings::of_kind(const Type& leaf, Kind kind, const std::vector<AxisRef>& manual) {
  const bool is_any = kind == Kind::kTuple || kind == Kind::kShardAs || kind == Kind::kShardLike ||
                      kind == Kind::kManual || kind == Kind::kManualSubgroup;
  if (is_any) return any(leaf, manual);
  constexpr int kTries = 60;
  for (int i = 0; i < kTries; ++i) {
    Sharding out = drawn(leaf, kind, manual);
    if (kinds_of(leaf, out).test(static_cast<std::size_t>(kind))) return out;
  }
  return std::nullopt;
}

Sharding RandomShardings::any(const Type& leaf, const std::vector<AxisRef>& manual) {
  const auto draw = dice_.below(20);
  if (draw == 0) return drawn(leaf, Kind::kReplicated, manual);
  if (draw == 1 && manual.empty()) return drawn(leaf, Kind::kMaximal, manual);
  if (draw == 2) return drawn(leaf, Kind::kUnreduced, manual);
  if (draw == 3 || draw == 4) return drawn(leaf, Kind::kDeviceOrder, manual);
  if (draw == 5 || draw == 6) return drawn(leaf, Kind::kOpen, manual);
  if (draw == 7 && manual.empty()) return drawn(leaf, Kind::kUnknown, manual);
  return drawn(leaf, Kind::kOneAxis, manual);
}

}  // namespace tessera::testing
