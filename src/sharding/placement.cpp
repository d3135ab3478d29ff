// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/placement.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

std::vector<AxisRef> merged_set(std::vector<AxisRef> axes) {
  std::sort(axes.begin(), axes.end());
  return merged_axes(axes);
}

bool same_axes(const Sharding& a, const Sharding& b) {
  for (int d = 0; d < a.ndim(); ++d)
    if (merged_axes(at(a.dims, d).axes) != merged_axes(at(b.dims, d).axes)) return false;
  return merged_set(a.partial) == merged_set(b.partial) && merged_set(a.manual) == merged_set(b.manual);
}

// For every device, the first member of its group. Two partitions into groups are equal if these are equal.
std::vector<std::int64_t> group_heads(const Mesh& mesh, const std::vector<AxisRef>& axes) {
  std::vector<std::int64_t> heads(static_cast<std::size_t>(mesh.device_count()));
  for (const auto& group : mesh.groups(axes)) {
    const auto head = *std::min_element(group.begin(), group.end());
    for (const auto device : group) at(heads, device) = head;
  }
  return heads;
}

bool by_same_axes(const Sharding& a, const Sharding& b, int d) {
  return a.is_tiled() && b.is_tiled() && a.mesh == b.mesh &&
         merged_axes(at(a.dims, d).axes) == merged_axes(at(b.dims, d).axes);
}

bool same_intervals(const Type& global, const Sharding& a, const Sharding& b) {
  const Placement pa = placement_of(global, a);
  const Placement pb = placement_of(global, b);
  const auto devices = a.mesh.device_count();
  if (b.mesh.device_count() != devices) return a.is_replicated() && b.is_replicated();
  for (int d = 0; d < global.ndim(); ++d) {
    if (at(pa.dims, d).length != at(pb.dims, d).length) return false;
    if (by_same_axes(a, b, d)) continue;
    for (std::int64_t device = 0; device < devices; ++device)
      if (!(pa.interval(device, d) == pb.interval(device, d))) return false;
  }
  return group_heads(a.mesh, a.partial) == group_heads(b.mesh, b.partial) &&
         group_heads(a.mesh, a.manual) == group_heads(b.mesh, b.manual);
}

struct Box {
  Dims starts;
  Dims sizes;
};
Box box_of(const Placement& placement, std::int64_t device) {
  Box box;
  for (int d = 0; d < isize(placement.dims); ++d) {
    const Interval interval = placement.interval(device, d);
    box.starts.push_back(interval.start);
    box.sizes.push_back(interval.size());
  }
  return box;
}

Literal filled_box(const Literal& scalar, const Dims& dims) {
  Literal out(Type::array(scalar.type().dtype(), dims));
  const auto value = scalar.bytes();
  const auto bytes = out.mutable_bytes();
  for (std::size_t i = 0; i < bytes.size(); i += value.size())
    std::copy(value.begin(), value.end(), bytes.begin() + static_cast<std::ptrdiff_t>(i));
  return out;
}

template <class T>
T identity_of(Reduction reduction) {
  using Limits = std::numeric_limits<T>;
  switch (reduction) {
    case Reduction::kSum: return Limits::is_integer ? T{} : static_cast<T>(-0.0);
    case Reduction::kProduct: return static_cast<T>(1);
    case Reduction::kMin: return Limits::is_integer ? Limits::max() : Limits::infinity();
    case Reduction::kMax: return Limits::is_integer ? Limits::lowest() : static_cast<T>(-Limits::infinity());
    case Reduction::kAnd: return Limits::is_integer ? static_cast<T>(~std::uint64_t{0}) : T{};
    case Reduction::kOr: break;
  }
  return T{};
}

}  // namespace

DimPlacement DimPlacement::canonical(std::int64_t size, std::int64_t tiles) {
  const auto length = ceil_div(size, tiles);
  return {size, tiles, length, 0, length};
}

Interval DimPlacement::interval(std::int64_t tile) const {
  const auto start = a * tile + b;
  return {std::clamp(start, std::int64_t{0}, size), std::clamp(start + length, std::int64_t{0}, size)};
}

Interval Placement::interval(std::int64_t device, int dim) const {
  const DimPlacement& dim_placement = at(dims, dim);
  if (sharding.kind == Sharding::Kind::kMaximal) return {0, device == sharding.device ? dim_placement.size : 0};
  if (!sharding.is_tiled()) return {0, dim_placement.size};
  return dim_placement.interval(
      sharding.mesh.coordinate(sharding.mesh.position_of(device), at(sharding.dims, dim).axes));
}

Placement placement_of(const Type& global, const Sharding& sharding) {
  Placement out{sharding, {}};
  for (int d = 0; d < global.ndim(); ++d)
    out.dims.push_back(DimPlacement::canonical(global.dim(d), sharding.is_tiled() ? sharding.tiles(d) : 1));
  return out;
}

Type shard_type(const Type& global, const Sharding& sharding) {
  if (!sharding.is_tiled()) return global;
  if (global.is_tuple()) {
    std::vector<Type> elements;
    for (const Type& element : global.elements()) elements.push_back(shard_type(element, sharding));
    return Type::tuple(std::move(elements));
  }
  if (!global.is_array()) return global;
  ensure(sharding.ndim() == global.ndim(), "sharding {} does not fit {}", sharding, global);
  Dims dims = global.dims();
  for (int d = 0; d < global.ndim(); ++d) at(dims, d) = ceil_div(at(dims, d), sharding.tiles(d));
  return global.with_dims(std::move(dims));
}

namespace {
Type shard_type_from(const Type& global, const Shardings& leaves, std::size_t& next) {
  if (global.is_tuple()) {
    std::vector<Type> elements;
    for (const Type& element : global.elements()) elements.push_back(shard_type_from(element, leaves, next));
    return Type::tuple(std::move(elements));
  }
  return shard_type(global, leaves[next++]);
}
}  // namespace

Type shard_type(const Type& global, const Shardings& leaves) {
  const int count = global.leaf_count();
  if (isize(leaves) == 1 && count != 1) return shard_type(global, leaves.front());
  ensure(isize(leaves) == count, "{} shardings for the {} leaves of {}", leaves.size(), count, global);
  std::size_t next = 0;
  return shard_type_from(global, leaves, next);
}

Literal partial_identity(DType dtype, Reduction reduction) {
  if (is_complex(dtype)) return scalar_of(dtype, reduction == Reduction::kProduct ? 1 : 0);
  return visit_dtype(dtype, [&]<class T>() {
    if constexpr (kDTypeOf<T> == DType::kPred)
      return Literal::scalar<bool>(reduction == Reduction::kAnd || reduction == Reduction::kMin ||
                                   reduction == Reduction::kProduct);
    else if constexpr (kDTypeOf<T> == DType::kF16 || kDTypeOf<T> == DType::kBF16)
      return Literal::scalar<T>(T(identity_of<float>(reduction)));
    else
      return Literal::scalar<T>(identity_of<T>(reduction));
  });
}

Literal take_shard(const Literal& global, const Sharding& sharding, std::int64_t device, unsigned char fill) {
  const Type local = shard_type(global.type(), sharding);
  Literal out(local);
  const auto bytes = out.mutable_bytes();
  std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(fill));
  const Placement placement = placement_of(global.type(), sharding);
  const Box box = box_of(placement, device);
  const Dims origin(box.sizes.size(), 0);
  const bool holds_value =
      !sharding.is_partial() || sharding.mesh.coordinate(sharding.mesh.position_of(device), sharding.partial) == 0;
  if (holds_value)
    copy_part(global, box.starts, out, origin, box.sizes);
  else
    copy_part(filled_box(partial_identity(local.dtype(), sharding.reduction), box.sizes), origin, out, origin,
              box.sizes);
  return out;
}

Literal assemble(const Type& global, const Sharding& sharding, const std::vector<Literal>& shards) {
  ensure(!sharding.is_partial(), "a partial value {} cannot be assembled", sharding);
  ensure(isize(shards) == sharding.mesh.device_count(), "{} shards for {} devices", shards.size(),
         sharding.mesh.device_count());
  if (sharding.kind == Sharding::Kind::kMaximal) return at(shards, sharding.device);
  const Type local = shard_type(global, sharding);
  const Placement placement = placement_of(global, sharding);
  Literal out(global);
  std::vector<Dims> seen;
  for (int device = 0; device < isize(shards); ++device) {
    const Box box = box_of(placement, device);
    if (product(box.sizes) == 0 || std::find(seen.begin(), seen.end(), box.starts) != seen.end()) continue;
    seen.push_back(box.starts);
    ensure(at(shards, device).type() == local, "device {} holds {}, its shard is {}", device, at(shards, device).type(),
           local);
    const Dims origin(box.sizes.size(), 0);
    copy_part(at(shards, device), origin, out, box.starts, box.sizes);
  }
  return out;
}

bool same_placement(const Type& global, const Sharding& a, const Sharding& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Sharding::Kind::kMaximal) return a.device == b.device;
  if (!a.is_tiled()) return true;
  if (a.is_partial() != b.is_partial() || (a.is_partial() && a.reduction != b.reduction)) return false;
  if (a.ndim() != b.ndim()) return false;
  if (a.mesh == b.mesh && same_axes(a, b)) return true;
  return global.is_array() && same_intervals(global, a, b);
}

bool is_even(const Type& global, const Sharding& sharding) {
  if (!sharding.is_tiled()) return true;
  for (int d = 0; d < global.ndim(); ++d)
    if (global.dim(d) % sharding.tiles(d) != 0) return false;
  return true;
}

void check_sharding(const Type& global, const Sharding& sharding) {
  if (global.is_tuple()) {
    for (const Type& leaf : global.leaves()) check_sharding(leaf, sharding);
    return;
  }
  if (!global.is_array()) return;
  if (sharding.kind == Sharding::Kind::kMaximal)
    require(sharding.device >= 0 && sharding.device < sharding.mesh.device_count(),
            "maximal device {} is not one of 0..{}", sharding.device, sharding.mesh.device_count() - 1);
  if (!sharding.is_tiled()) return;
  require(sharding.ndim() == global.ndim(), "sharding {} is for {} dim{}, {} has {}", sharding, sharding.ndim(),
          sharding.ndim() == 1 ? "" : "s", global, global.ndim());
  std::vector<AxisRef> used = sharding.used_axes();
  for (const AxisRef& axis : used) {
    require(axis.axis >= 0 && axis.axis < sharding.mesh.axis_count(), "sharding of {} uses axis {} of {}, which has {}",
            global, axis.axis, sharding.mesh, sharding.mesh.axis_count());
    const auto axis_size = at(sharding.mesh.axes(), axis.axis).size;
    require(axis.pre >= 1 && axis.size >= 1 && axis_size % (axis.pre * axis.size) == 0,
            "sharding of {} uses {}:({}){}, which is not a part of an axis of size {}", global,
            at(sharding.mesh.axes(), axis.axis).name, axis.pre, axis.size, axis_size);
  }
  std::erase_if(used, [](const AxisRef& axis) { return axis.size == 1; });
  std::sort(used.begin(), used.end());
  for (std::size_t i = 1; i < used.size(); ++i)
    require(used[i - 1].axis != used[i].axis || used[i - 1].pre * used[i - 1].size <= used[i].pre,
            "sharding {} uses axis \"{}\" twice", sharding, at(sharding.mesh.axes(), used[i].axis).name);
}

}  // namespace tessera
