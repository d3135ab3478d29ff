// SPDX-License-Identifier: Apache-2.0
// Conversion between HloSharding and mesh axes: both are digits of the position.
#include <algorithm>
#include <numeric>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tile_digits.h"

namespace tessera {
namespace {

using Kind = HloSharding::Kind;

// ---- from HLO to axes -----------------------------------------------------------------------------------------------

// The leaf's array in positions of a device order (if position_of is empty, device = position). Members of subgroups
// are sorted by position, because their order has no meaning.
std::vector<std::int64_t> sorted_positions(const HloSharding& leaf, const std::vector<std::int64_t>& position_of) {
  std::vector<std::int64_t> out = leaf.devices;
  if (!position_of.empty())
    for (auto& device : out) device = at(position_of, device);
  const auto size = subgroup_sizes(leaf);
  for (auto group = out.begin(); group != out.end(); group += size.replicated)
    std::sort(group, group + size.replicated);
  // Sorts blocks of `width` elements by their first element, `count` blocks at a time.
  const auto sort_blocks = [](auto first, std::int64_t count, std::int64_t width, std::vector<std::int64_t>* order) {
    std::vector<std::int64_t> own(static_cast<std::size_t>(count));
    std::vector<std::int64_t>& by = order != nullptr ? *order : own;
    if (order == nullptr || order->empty()) {
      by.resize(static_cast<std::size_t>(count));
      std::iota(by.begin(), by.end(), 0);
      std::sort(by.begin(), by.end(), [&](auto a, auto b) { return first[a * width] < first[b * width]; });
    }
    std::vector<std::int64_t> sorted;
    for (const auto block : by) sorted.insert(sorted.end(), first + block * width, first + (block + 1) * width);
    std::copy(sorted.begin(), sorted.end(), first);
  };
  if (size.unreduced > 1)
    for (auto group = out.begin(); group != out.end(); group += size.unreduced * size.replicated)
      sort_blocks(group, size.unreduced, size.replicated, nullptr);
  std::vector<std::int64_t> manual_order;  // one order for all data tiles: a manual group has the same index in each
  const auto width = size.unreduced * size.replicated;
  if (size.manual > 1)
    for (auto group = out.begin(); group != out.end(); group += size.manual * width)
      sort_blocks(group, size.manual, width, &manual_order);
  return out;
}

// The (sub-)axes that a digit of the position covers, major to minor; null if it divides an axis unevenly.
std::optional<std::vector<AxisRef>> axes_of(const Mesh& mesh, const Dims& strides, Digit digit) {
  std::vector<AxisRef> out;
  for (int axis = mesh.axis_count() - 1; axis >= 0 && digit.size > 1; --axis) {
    const auto axis_size = at(mesh.axes(), axis).size;
    const auto stride = at(strides, axis);
    if (digit.stride >= stride * axis_size) continue;
    if (digit.stride % stride != 0 || axis_size % (digit.stride / stride) != 0) return std::nullopt;
    const auto rest = axis_size / (digit.stride / stride);  // the part of this axis from the digit's stride upwards
    const auto size = std::min(rest, digit.size);
    if (rest % size != 0 || digit.size % size != 0) return std::nullopt;
    if (size > 1) out.push_back({axis, rest / size, size});
    digit.stride *= size;
    digit.size /= size;
  }
  if (digit.size > 1) return std::nullopt;
  std::reverse(out.begin(), out.end());
  return out;
}

Dims axis_strides(const Mesh& mesh) {
  Dims sizes;
  for (const auto& axis : mesh.axes()) sizes.push_back(axis.size);
  return row_major_strides(sizes);
}

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> out(order.size());
  for (int p = 0; p < isize(order); ++p) at(out, at(order, p)) = p;
  return out;
}

std::optional<Sharding> tiled_to_axes(const HloSharding& leaf, const Mesh& mesh, int ndim) {
  require(
      data_ndim(leaf) == ndim, "sharding {} has {} dims, the value {}", [&] { return hlo_sharding_text(leaf); },
      data_ndim(leaf), ndim);
  if (isize(leaf.devices) != mesh.device_count()) return std::nullopt;
  const auto digits = tile_digits(leaf.tile_dims, sorted_positions(leaf, inverse(mesh.device_order())));
  if (!digits) return std::nullopt;
  Sharding out = Sharding::replicated(mesh, ndim);
  const auto strides = axis_strides(mesh);
  for (int d = 0; d < isize(leaf.tile_dims); ++d) {
    std::vector<AxisRef> axes;
    for (const auto& digit : at(*digits, d)) {
      const auto refs = axes_of(mesh, strides, digit);
      if (!refs) return std::nullopt;
      axes.insert(axes.end(), refs->begin(), refs->end());
    }
    if (d < ndim) {
      at(out.dims, d).axes = std::move(axes);
      continue;
    }
    const auto type = at(leaf.subgroup_types, d - ndim);
    if (type == SubgroupType::kManual)
      out.manual = std::move(axes);
    else if (type == SubgroupType::kUnreduced)
      out.partial = std::move(axes);
  }
  std::sort(out.manual.begin(), out.manual.end());
  std::sort(out.partial.begin(), out.partial.end());
  return out;
}

// Whether a device order has the order that the text gives to the replicas of a manual subgroup. Collectives of a region
// connect devices at the same place of this order, so their groups vary only along axes of a mesh with such an order.
bool keeps_order_of_replicas(const HloSharding& leaf, const std::vector<std::int64_t>& position_of) {
  const auto size = subgroup_sizes(leaf);
  if (size.manual == 1 || size.replicated == 1) return true;
  std::vector<std::int64_t> positions = leaf.devices;
  if (!position_of.empty())
    for (auto& device : positions) device = at(position_of, device);
  return positions == sorted_positions(leaf, position_of);
}

// ---- meshes for texts without meshes --------------------------------------------------------------------------------

// A mesh under construction: a device order and the strides at which shardings divide the position.
struct MeshGroup {
  std::vector<std::int64_t> order;        // empty: 0, 1, 2, …
  std::vector<std::int64_t> position_of;  // its inverse
  std::set<std::int64_t> strides;

  // Adds a sharding. Returns false without changes if the sharding does not nest with the previous ones.
  bool add(const HloSharding& leaf) {
    if (!keeps_order_of_replicas(leaf, position_of)) return false;
    const auto digits = tile_digits(leaf.tile_dims, sorted_positions(leaf, position_of));
    if (!digits) return false;
    auto all = strides;
    for (const auto& dim : *digits)
      for (const auto& digit : dim) all.insert({digit.stride, digit.stride * digit.size});
    for (auto stride = all.begin(); std::next(stride) != all.end(); ++stride)
      if (*std::next(stride) % *stride != 0) return false;
    strides = std::move(all);
    return true;
  }
  [[nodiscard]] Mesh mesh(const std::string& name) const {
    std::vector<MeshAxis> axes;
    for (auto stride = strides.rbegin(); std::next(stride) != strides.rend(); ++stride)
      axes.push_back({fmt::format("_{}", axes.size()), *stride / *std::next(stride)});
    return Mesh(std::move(axes), order, name);
  }
};

MeshGroup fresh_group(std::int64_t device_count, std::vector<std::int64_t> order = {}) {
  MeshGroup out;
  out.position_of = inverse(order);
  out.order = std::move(order);
  out.strides = {1, device_count};
  return out;
}

std::string unused_mesh_name(const std::vector<Mesh>& meshes) {
  for (std::size_t k = 0;; ++k) {
    std::string name = k == 0 ? "mesh" : fmt::format("mesh_{}", k);
    if (std::none_of(meshes.begin(), meshes.end(), [&](const Mesh& mesh) { return mesh.name() == name; })) return name;
  }
}

// Adds meshes for shardings that do not nest in one mesh: each sharding joins the first mesh that accepts it, or begins
// its own.
void add_meshes(const std::vector<HloSharding>& leaves, std::int64_t device_count, std::vector<Mesh>& known) {
  std::vector<MeshGroup> groups;
  for (const auto& leaf : leaves) {
    if (std::any_of(groups.begin(), groups.end(), [&](MeshGroup& group) { return group.add(leaf); })) continue;
    groups.push_back(fresh_group(device_count));
    if (groups.back().add(leaf)) continue;
    groups.back() = fresh_group(device_count, leaf.devices);
    ensure(groups.back().add(leaf), "a sharding does not fit the mesh of its own device order");
  }
  for (const auto& group : groups) known.push_back(group.mesh(unused_mesh_name(known)));
}

// Sorts the devices by the tiles of each sharding, starting with the sharding with the most tiles. If any order fits
// all shardings, this one does.
std::vector<std::int64_t> order_by_tiles(const std::vector<HloSharding>& shardings, std::int64_t device_count) {
  std::vector<std::pair<std::int64_t, const HloSharding*>> by_tiles;
  for (const auto& leaf : shardings)
    if (leaf.kind == Kind::kTiled) by_tiles.emplace_back(device_count / subgroup_sizes(leaf).replicated, &leaf);
  std::stable_sort(by_tiles.begin(), by_tiles.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::vector<std::int64_t>> tiles_of_device(static_cast<std::size_t>(device_count));
  for (const auto& [tiles, leaf] : by_tiles)
    for (std::int64_t k = 0; k < device_count; ++k)
      at(tiles_of_device, at(leaf->devices, k)).push_back(k / (device_count / tiles));
  std::vector<std::int64_t> order(static_cast<std::size_t>(device_count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return at(tiles_of_device, a) < at(tiles_of_device, b); });
  return order;
}

std::vector<AxisRef> all_axes(const Mesh& mesh) {
  std::vector<AxisRef> out;
  for (int axis = 0; axis < mesh.axis_count(); ++axis)
    if (at(mesh.axes(), axis).size > 1) out.push_back(mesh.full_axis(axis));
  return out;
}

// ---- from axes to HLO -----------------------------------------------------------------------------------------------

// The parts of all mesh axes, split at the boundaries of all used parts, major to minor, as digits of the position.
Digits mesh_pieces(const Sharding& sharding) {
  const auto used = sharding.used_axes();
  const auto strides = axis_strides(sharding.mesh);
  Digits out;
  for (int axis = 0; axis < sharding.mesh.axis_count(); ++axis) {
    const auto size = at(sharding.mesh.axes(), axis).size;
    std::set<std::int64_t> prefixes = {1, size};  // products of the leading parts
    for (const auto& ref : used)
      if (ref.axis == axis) prefixes.insert({ref.pre, ref.pre * ref.size});
    for (auto prefix = prefixes.begin(); std::next(prefix) != prefixes.end(); ++prefix) {
      require(*std::next(prefix) % *prefix == 0 && size % *std::next(prefix) == 0,
              "the parts of mesh axis \"{}\" used by {} do not nest", at(sharding.mesh.axes(), axis).name, sharding);
      out.push_back({size / *std::next(prefix) * at(strides, axis), *std::next(prefix) / *prefix});
    }
  }
  return out;
}

// Removes the pieces that the axes cover from `left` and returns them in the order of the axes.
Digits take_pieces(const Mesh& mesh, const std::vector<AxisRef>& axes, Digits& left) {
  const auto strides = axis_strides(mesh);
  Digits out;
  for (const auto& ref : axes) {
    const auto low = at(mesh.axes(), ref.axis).size / (ref.pre * ref.size) * at(strides, ref.axis);
    const auto high = low * ref.size;
    std::int64_t taken = 1;
    for (auto piece = left.begin(); piece != left.end();) {
      const bool inside = piece->stride >= low && piece->stride * piece->size <= high;
      if (inside) out.push_back(*piece);
      if (inside) taken *= piece->size;
      piece = inside ? left.erase(piece) : piece + 1;
    }
    require(taken == ref.size, "a sharding uses mesh axis {} twice", [&] { return mesh.axis_text(ref); });
  }
  return out;
}

}  // namespace

std::optional<Mesh> common_mesh(const std::vector<HloSharding>& shardings, std::int64_t device_count) {
  const auto try_order = [&](std::vector<std::int64_t> order, const HloSharding** conflicting) -> std::optional<Mesh> {
    MeshGroup group = fresh_group(device_count, std::move(order));
    for (const auto& leaf : shardings) {
      if (leaf.kind != Kind::kTiled || group.add(leaf)) continue;
      *conflicting = &leaf;
      return std::nullopt;
    }
    return group.mesh("mesh");
  };
  const HloSharding* conflicting = nullptr;
  if (auto mesh = try_order({}, &conflicting)) return mesh;
  if (auto mesh = try_order(conflicting->devices, &conflicting)) return mesh;
  return try_order(order_by_tiles(shardings, device_count), &conflicting);
}

std::optional<Sharding> to_axes(const HloSharding& sharding, const Mesh& mesh, int ndim) {
  switch (sharding.kind) {
    case Kind::kReplicated: return Sharding::replicated(mesh, ndim);
    case Kind::kMaximal: return Sharding::maximal(mesh, sharding.device);
    case Kind::kManual: return Sharding::manual_everywhere(mesh);
    case Kind::kTiled: return tiled_to_axes(sharding, mesh, ndim);
    case Kind::kUnknown: {
      Sharding out;
      out.kind = Sharding::Kind::kUnknown;
      out.mesh = mesh;
      return out;
    }
    case Kind::kUnreduced: break;
  }
  Sharding out = Sharding::replicated(mesh, ndim);
  out.partial = all_axes(mesh);
  return out;
}

std::vector<Sharding> to_axes(const std::vector<std::pair<HloSharding, int>>& shardings_and_ndims,
                              std::int64_t device_count, std::vector<Mesh>& known) {
  const auto find = [&](const HloSharding& leaf, int ndim) -> std::optional<Sharding> {
    std::optional<Sharding> best;
    for (const auto& mesh : known) {
      auto found = to_axes(leaf, mesh, ndim);
      if (found && keeps_order_of_replicas(leaf, inverse(mesh.device_order()))) return found;
      if (found && !best) best = std::move(found);
    }
    return best;
  };
  std::vector<std::optional<Sharding>> found(shardings_and_ndims.size());
  std::vector<HloSharding> without_mesh;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& [leaf, ndim] = shardings_and_ndims[i];
    if (leaf.kind != Kind::kTiled) continue;
    require(
        isize(leaf.devices) == device_count, "sharding {} is over {} devices, the module over {}",
        [&] { return hlo_sharding_text(leaf); }, leaf.devices.size(), device_count);
    found[i] = find(leaf, ndim);
    if (!found[i]) without_mesh.push_back(leaf);
  }
  if (!without_mesh.empty()) {
    if (const auto mesh = common_mesh(without_mesh, device_count)) {
      known.emplace_back(mesh->axes(), mesh->device_order(), unused_mesh_name(known));
    } else {
      add_meshes(without_mesh, device_count, known);
    }
  }
  if (known.empty()) known.push_back(*common_mesh({}, device_count));
  std::vector<Sharding> out;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) found[i] = find(shardings_and_ndims[i].first, shardings_and_ndims[i].second);
    ensure(found[i].has_value(), "no mesh fits sharding {}",
           [&] { return hlo_sharding_text(shardings_and_ndims[i].first); });
    out.push_back(std::move(*found[i]));
  }
  return out;
}

HloSharding to_hlo(const Sharding& sharding) {
  HloSharding out;
  if (sharding.kind == Sharding::Kind::kMaximal) {
    out.kind = Kind::kMaximal;
    out.device = sharding.device;
    return out;
  }
  if (sharding.kind != Sharding::Kind::kTiled) {
    out.kind = sharding.kind == Sharding::Kind::kManual ? Kind::kManual : Kind::kUnknown;
    return out;
  }
  if (sharding.used_axes().empty()) return out;
  Digits left = mesh_pieces(sharding);
  std::vector<Digits> dims;
  for (const auto& dim : sharding.dims) dims.push_back(take_pieces(sharding.mesh, dim.axes, left));
  const auto add_subgroup = [&](SubgroupType type, Digits digits) {
    dims.push_back(std::move(digits));
    out.subgroup_types.push_back(type);
  };
  add_subgroup(SubgroupType::kManual, take_pieces(sharding.mesh, sharding.manual, left));
  if (sharding.reduction == Reduction::kSum)
    add_subgroup(SubgroupType::kUnreduced, take_pieces(sharding.mesh, sharding.partial, left));
  add_subgroup(SubgroupType::kReplicated, std::move(left));
  Dims sizes;
  Digits order;
  for (const auto& dim : dims) {
    out.tile_dims.push_back(1);
    for (const auto& digit : dim) {
      out.tile_dims.back() *= digit.size;
      sizes.push_back(digit.size);
      order.push_back(digit);
    }
  }
  out.kind = Kind::kTiled;
  for_each_index(sizes, [&](const Dims& index) {
    std::int64_t position = 0;
    for (std::size_t k = 0; k < index.size(); ++k) position += index[k] * order[k].stride;
    out.devices.push_back(sharding.mesh.device_at(position));
  });
  if (out.devices.size() == 1) return HloSharding{};
  normalize(out);
  return out;
}

}  // namespace tessera
