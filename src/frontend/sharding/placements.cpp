// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/sharding/placements.h"

#include <fmt/format.h>

#include <algorithm>

#include "execution/execute.h"
#include "sharding/sharded_variable.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/ops/contraction.h"
#include "tessera/sharding/shard_data.h"
#include "tracing/error_context.h"

namespace tessera {
namespace {

std::string placement_text(const AxisPlacement& placement) {
  if (const auto* shard = std::get_if<Shard>(&placement)) return fmt::format("Shard({})", shard->dim);
  if (const auto* partial = std::get_if<Partial>(&placement))
    return fmt::format("Partial({})", reduction_name(partial->reduction));
  return "Replicate()";
}

bool is_partial(const AxisPlacement& placement) { return std::holds_alternative<Partial>(placement); }

// The sharding over the axes that have a Shard; other axes are replicated.
Sharding sharding_of_shards(const Mesh& mesh, const Placements& placements, int ndim) {
  require(isize(placements) == mesh.axis_count(), "{} has {} axes, but {} placements are given: {}; give one per axis",
          mesh, mesh.axis_count(), placements.size(), placements_text(placements));
  Sharding out = Sharding::replicated(mesh, ndim);
  for (int a = 0; a < mesh.axis_count(); ++a) {
    const auto* shard = std::get_if<Shard>(&at(placements, a));
    if (shard == nullptr) continue;
    const int d = shard->dim < 0 ? shard->dim + ndim : shard->dim;
    require(d >= 0 && d < ndim, "placements {}: the array has {} dim{}, so there is no dim {}",
            placements_text(placements), ndim, ndim == 1 ? "" : "s", shard->dim);
    if (const AxisRef axis = mesh.full_axis(a); axis.size > 1) at(out.dims, d).axes.push_back(axis);
  }
  return out;
}

PartitionSpec spec_of(const Sharding& sharding) {
  std::vector<PartitionSpec::Entry> entries;
  for (const DimSharding& dim : sharding.dims) {
    SpecEntry names;
    for (const AxisRef& axis : dim.axes) names.push_back(sharding.mesh.axis_text(axis));
    entries.emplace_back(std::move(names));
  }
  return PartitionSpec(std::move(entries));
}

Sharding checked_placements(std::string_view name, const Tensor& tensor, const Mesh& mesh, const Placements& placements,
                            const std::source_location& where) {
  return in_context(name, {&tensor}, where, [&] { return sharding_of_placements(mesh, placements, tensor.ndim()); });
}

// The dims of the global array if each device holds `local`.
Dims global_dims(const Dims& local, const Sharding& sharding) {
  Dims out = local;
  for (int d = 0; d < isize(out); ++d) at(out, d) *= sharding.tiles(d);
  return out;
}

Value reduce_partial(Value stacked, const Placements& partial) {
  for (const AxisPlacement& one : partial) stacked = ops::reduce(stacked, std::get<Partial>(one).reduction, {0});
  return stacked;
}

// The ranks' arrays as one array with a leading dim for each partial axis, which is then reduced.
Tensor from_partial(const Literal& local, const Mesh& mesh, const Placements& placements, const Sharding& shards,
                    const std::source_location& where) {
  Sharding stacked = shards;
  Dims local_dims = local.type().dims();
  Placements partial;
  for (int a = mesh.axis_count() - 1; a >= 0; --a) {
    if (!is_partial(at(placements, a))) continue;
    const AxisRef axis = mesh.full_axis(a);
    stacked.dims.insert(stacked.dims.begin(), DimSharding{});
    if (axis.size > 1) stacked.dims.front().axes = {axis};
    local_dims.insert(local_dims.begin(), 1);
    partial.insert(partial.begin(), at(placements, a));
  }
  Literal reshaped(local.type().with_dims(local_dims));
  std::copy(local.bytes().begin(), local.bytes().end(), reshaped.mutable_bytes().begin());
  const Tensor all = sharded_variable(local.type().with_dims(global_dims(local_dims, stacked)), stacked, reshaped);
  return trace().record(where, [&](Builder&) { return reduce_partial(trace().use(all), partial); });
}

}  // namespace

std::string placements_text(const Placements& placements) {
  std::vector<std::string> texts;
  for (const AxisPlacement& placement : placements) texts.push_back(placement_text(placement));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

Sharding sharding_of_placements(const Mesh& mesh, const Placements& placements, int ndim) {
  require(std::none_of(placements.begin(), placements.end(), is_partial),
          "placements {}: a tensor is never stored as partial values; only from_local() takes Partial",
          placements_text(placements));
  return sharding_of_shards(mesh, placements, ndim);
}

Placements placements_of(const Sharding& sharding) {
  require(sharding.is_tiled(), "{} has no placements: it is not a tiling", sharding);
  const Mesh& mesh = sharding.mesh;
  Placements out(static_cast<std::size_t>(mesh.axis_count()), Replicate());
  for (int d = 0; d < sharding.ndim(); ++d) {
    int last = -1;
    for (const AxisRef& axis : at(sharding.dims, d).axes) {
      require(axis == mesh.full_axis(axis.axis) && axis.axis > last,
              "placements cannot express {}: dim {} must be sharded over complete axes of {} in their order", sharding,
              d, mesh);
      last = axis.axis;
      at(out, axis.axis) = Shard(d);
    }
  }
  for (const AxisRef& axis : sharding.partial) at(out, axis.axis) = Partial(sharding.reduction);
  return out;
}

Placements placements_of(const Tensor& tensor) { return placements_of(storage_of(*tensor.impl().node)); }

Tensor distribute_tensor(const Tensor& tensor, const Mesh& mesh, const Placements& placements,
                         std::source_location where) {
  const Sharding sharding = checked_placements("distribute_tensor", tensor, mesh, placements, where);
  const Node& node = *tensor.impl().node;
  if (!node.has_data() || trace().is_recorded(node))
    return with_sharding_constraint(tensor, mesh, spec_of(sharding), where);
  const bool is_divided = node.sharding && !node.sharding->is_replicated();
  if (is_divided || node.is_under_way) return with_sharding_constraint(tensor, mesh, spec_of(sharding), where);
  Tensor out = new_tensor(trace().copy_of(node));
  mark_sharding(out, mesh, spec_of(sharding), where);
  if (tensor.requires_grad()) out.set_requires_grad();
  return out;
}

Tensor redistribute(const Tensor& tensor, const Mesh& mesh, const Placements& placements, std::source_location where) {
  const Sharding sharding = checked_placements("redistribute", tensor, mesh, placements, where);
  return with_sharding_constraint(tensor, mesh, spec_of(sharding), where);
}

Tensor full_tensor(const Tensor& tensor, std::source_location where) {
  const Mesh mesh = storage_of(*tensor.impl().node).mesh;
  return with_sharding_constraint(tensor, mesh, spec_of(Sharding::replicated(mesh, tensor.ndim())), where);
}

Tensor from_local(const Literal& local, const Mesh& mesh, const Placements& placements,
                  const std::optional<Dims>& shape, std::source_location where) {
  return in_context("from_local", {}, where, [&] {
    require(mesh.device_count() == device_count(), "{} has {} devices; this job has {}", mesh, mesh.device_count(),
            device_count());
    const Sharding sharding = sharding_of_shards(mesh, placements, local.type().ndim());
    const Type global = local.type().with_dims(shape ? *shape : global_dims(local.type().dims(), sharding));
    if (std::none_of(placements.begin(), placements.end(), is_partial))
      return sharded_variable(global, sharding, local);
    require(is_even(global, sharding), "{} cannot be sharded unevenly and partial: {}", global,
            placements_text(placements));
    require(shard_type(global, sharding) == local.type(), "each rank must pass {}, its part of {}, got {}",
            shard_type(global, sharding), global, local.type());
    return from_partial(local, mesh, placements, sharding, where);
  });
}

Literal to_local(const Tensor& tensor) {
  const Literal shard = tensor.local_shard();
  return unpadded_shard(shard, tensor.type(), storage_of(*tensor.impl().node), RankContext::current().rank());
}

}  // namespace tessera
