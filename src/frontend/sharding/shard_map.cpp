// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/sharding/shard_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "execution/execute.h"
#include "sharding/manual_scope.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/sharding/placement.h"
#include "tracing/error_context.h"

namespace tessera {

ManualScopes& manual_scopes() { return RankContext::current().get<ManualScopes>(); }

ManualRegion region_over(const Mesh& mesh, const std::vector<std::string>& names) {
  ManualRegion region{mesh, {}};
  for (int a = 0; a < mesh.axis_count(); ++a) {
    const bool is_named = std::find(names.begin(), names.end(), at(mesh.axes(), a).name) != names.end();
    if ((names.empty() || is_named) && at(mesh.axes(), a).size > 1) region.axes.push_back(mesh.full_axis(a));
  }
  for (const std::string& name : names) (void)mesh.axis_index(name);
  return region;
}

Sharding placement_in(const ManualRegion& region, const PartitionSpec& spec, int ndim) {
  if (spec.entries().empty()) return Sharding::replicated(region.mesh, ndim);
  Sharding out = Sharding::from_spec(region.mesh, spec, ndim);
  for (const AxisRef& axis : out.used_axes())
    require(overlaps_any(region.axes, axis),
            "partition spec {} names axis \"{}\", which axis_names leaves to the partitioner; shard over it with "
            "mark_sharding() outside",
            spec, region.mesh.axis_text(axis));
  const bool is_open = std::any_of(out.dims.begin(), out.dims.end(), [](const DimSharding& dim) { return dim.open; });
  require(!is_open, "partition spec {} leaves a dim open; shard_map needs the placement of every dim", spec);
  return out;
}

void check_divides(const Type& global, const Sharding& placement) {
  for (int d = 0; d < global.ndim(); ++d) {
    std::vector<std::string> names;
    for (const AxisRef& axis : at(placement.dims, d).axes) names.push_back(placement.mesh.axis_text(axis));
    require(global.dim(d) % placement.tiles(d) == 0,
            "dim {} of {} has size {}, which is not a multiple of {}, the number of devices along {} of {}; pad() it "
            "first",
            d, global, global.dim(d), placement.tiles(d), fmt::join(names, "+"), placement.mesh);
  }
}

Tensor enter_at(const Tensor& tensor, const Sharding& placement, const ManualRegion& region,
                const std::source_location& where) {
  check_divides(tensor.type(), placement);
  return trace().record(where, [&](Builder&) { return ops::enter_region(trace().use(tensor), placement, region); });
}

Tensor leave_at(const Tensor& tensor, const Sharding& placement, const ManualRegion& region,
                const std::source_location& where) {
  Dims dims = tensor.dims();
  for (int d = 0; d < tensor.ndim(); ++d) at(dims, d) *= placement.tiles(d);
  const Type global = tensor.type().with_dims(dims);
  return trace().record(where,
                        [&](Builder&) { return ops::leave_region(trace().use(tensor), global, placement, region); });
}

int regions_around(const Instruction& instruction, const std::vector<int>& regions) {
  const Role role = instruction.op->role;
  int around = role == Role::kParameter ? 0 : role == Role::kPartitionId ? 1 : kConstant;
  for (const Id operand : instruction.operands) around = std::max(around, at(regions, operand));
  const ManualBorder border = manual_border(instruction);
  if (border == ManualBorder::kEnter) return std::max(around, 0) + 1;
  return border == ManualBorder::kLeave ? std::max(around, 1) - 1 : around;
}

bool is_in_region(Value value) {
  const Computation& traced = value.builder->computation();
  std::vector<int> regions;
  for (Id id = 0; id <= value.id; ++id) regions.push_back(regions_around(traced[id], regions));
  return regions.back() > 0;
}

// ---- calls ---------------------------------------------------------------------------------------------------------------

namespace detail {
namespace {

const PartitionSpec& spec_of_tensor(const std::vector<PartitionSpec>& specs, int i, std::string_view kind) {
  require(specs.size() == 1 || i < isize(specs), "there are more {}s than {}_specs ({}); give one spec for each tensor",
          kind == "in" ? "argument" : "result", kind, specs.size());
  return at(specs, specs.size() == 1 ? 0 : i);
}

void check_count(const std::vector<PartitionSpec>& specs, int count, std::string_view kind) {
  require(specs.size() <= 1 || count == isize(specs), "{} {}_specs are given, but there are {} {}s", specs.size(), kind,
          count, kind == "in" ? "argument" : "result");
}

// A value must be equal along the axes that its spec does not name.
void check_equal(const Tensor& result, int number, const PartitionSpec& spec, const Sharding& placement,
                 const ManualRegion& region) {
  const Value value = trace().stored(result);
  for (const AxisRef& axis : region.axes_not_in(placement)) {
    require(
        is_equal_within(value, {region.mesh.groups({axis})}),
        "result {} may differ between the devices along axis \"{}\" of {}, but out_spec {} does not name it; reduce "
        "it (psum, pmean) or gather it (all_gather) over \"{}\", name the axis in the spec, or pass .check = false if "
        "the values are equal",
        number, region.mesh.axis_text(axis), region.mesh, spec, region.mesh.axis_text(axis));
  }
}

}  // namespace

ShardMapCall::ShardMapCall(const Mesh& mesh, const std::vector<PartitionSpec>& in_specs,
                           const std::vector<PartitionSpec>& out_specs, const ShardMapOptions& options,
                           std::source_location where)
    : in_specs_(in_specs), out_specs_(out_specs), check_(options.check), where_(where) {
  in_context("shard_map", {}, where, [&] {
    require(mesh.device_count() == device_count(), "{} has {} devices, but this job has {}", mesh, mesh.device_count(),
            device_count());
    ManualRegion region = region_over(mesh, options.axis_names);
    for (const ManualRegion& outer : manual_scopes().regions)
      for (const AxisRef& axis : region.axes)
        require(outer.mesh == mesh && !overlaps_any(outer.axes, axis),
                "axis \"{}\" is already per device in the shard_map around this one; name other axes in axis_names, on "
                "the same mesh",
                mesh.axis_text(axis));
    manual_scopes().regions.push_back(std::move(region));
  });
}

ShardMapCall::~ShardMapCall() { manual_scopes().regions.pop_back(); }

Tensor ShardMapCall::enter(const Tensor& argument) {
  return in_context("shard_map", {&argument}, where_, [&] {
    const int number = arguments_++;
    const ManualRegion& region = manual_scopes().regions.back();
    const PartitionSpec& spec = spec_of_tensor(in_specs_, number, "in");
    try {
      return enter_at(argument, placement_in(region, spec, argument.ndim()), region, where_);
    } catch (InternalError&) {
      throw;
    } catch (Error& error) {
      throw error.prefix(fmt::format("argument {} with in_spec {}: ", number, spec.str()));
    }
  });
}

Tensor ShardMapCall::leave(const Tensor& result) {
  return in_context("shard_map", {&result}, where_, [&] {
    const int number = results_++;
    const ManualRegion& region = manual_scopes().regions.back();
    const PartitionSpec& spec = spec_of_tensor(out_specs_, number, "out");
    Sharding placement;
    try {
      placement = placement_in(region, spec, result.ndim());
    } catch (InternalError&) {
      throw;
    } catch (Error& error) {
      throw error.prefix(fmt::format("result {} with out_spec {}: ", number, spec.str()));
    }
    if (check_) check_equal(result, number, spec, placement, region);
    return leave_at(result, placement, region, where_);
  });
}

void ShardMapCall::check_arguments() const {
  in_context("shard_map", {}, where_, [&] { check_count(in_specs_, arguments_, "in"); });
}
void ShardMapCall::check_results() const {
  in_context("shard_map", {}, where_, [&] { check_count(out_specs_, results_, "out"); });
}

}  // namespace detail

// ---- PyTorch/XLA's names --------------------------------------------------------------------------------------------------

Tensor enable_manual_sharding(const Tensor& tensor, const PartitionSpec& spec, const Mesh& mesh,
                              std::source_location where) {
  return in_context("enable_manual_sharding", {&tensor}, where, [&] {
    const ManualRegion region = region_over(mesh, {});
    manual_scopes().enabled = region;
    manual_scopes().was_left = false;
    return enter_at(tensor, placement_in(region, spec, tensor.ndim()), region, where);
  });
}

Tensor disable_manual_sharding(const Tensor& tensor, const PartitionSpec& spec, const Dims& full_shape,
                               const Mesh& mesh, std::source_location where) {
  return in_context("disable_manual_sharding", {&tensor}, where, [&] {
    const ManualRegion region = region_over(mesh, {});
    const Sharding placement = placement_in(region, spec, tensor.ndim());
    Tensor out = leave_at(tensor, placement, region, where);
    require(out.dims() == full_shape, "shards {} under {} form {}, not an array of dims [{}]", tensor.type(), spec,
            out.type(), fmt::join(full_shape, ","));
    manual_scopes().was_left = true;
    return out;
  });
}

}  // namespace tessera
