// SPDX-License-Identifier: Apache-2.0
#include "fsdp_axes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"

namespace tessera {

ShardingStrategy zero_stage(int stage) {
  switch (stage) {
    case 0: return ShardingStrategy::kNoShard;
    case 1: return ShardingStrategy::kShardOptimizer;
    case 2: return ShardingStrategy::kShardGradOp;
    case 3: return ShardingStrategy::kFullShard;
    default: fail("ZeRO has the stages 0, 1, 2 and 3, got {}", stage);
  }
}

namespace fsdp {
namespace {

using Groups = std::set<std::vector<std::int64_t>>;

Groups sorted_groups(std::vector<std::vector<std::int64_t>> groups) {
  Groups out;
  for (auto& group : groups) {
    std::sort(group.begin(), group.end());
    out.insert(std::move(group));
  }
  return out;
}

// Returns the axes of the mesh whose groups are `wanted`.
std::vector<AxisRef> axes_of_groups(const Mesh& mesh, const std::vector<std::vector<std::int64_t>>& wanted) {
  const Groups groups = sorted_groups(wanted);
  const int count = mesh.axis_count();
  for (unsigned chosen = 1; chosen < (1U << static_cast<unsigned>(count)); ++chosen) {
    std::vector<AxisRef> axes;
    for (int a = 0; a < count; ++a)
      if ((chosen >> static_cast<unsigned>(a) & 1U) != 0) axes.push_back(mesh.full_axis(a));
    if (sorted_groups(mesh.groups(axes)) == groups) return axes;
  }
  fail("sharding_groups must be the groups of axes of {}, got {} groups; the groups of {} begin with [{}]", mesh.str(),
       wanted.size(), mesh.axes().front().name, fmt::join(mesh.groups({mesh.full_axis(0)}).front(), ","));
}

void check_place_in_groups(const FsdpOptions& options) {
  require(options.sharding_rank && options.sharding_world_size,
          "sharding_groups needs sharding_rank and sharding_world_size: the place of this rank in its group, and the "
          "size of the group");
  const int rank = RankContext::current().rank();
  for (const auto& group : options.sharding_groups) {
    const auto found = std::find(group.begin(), group.end(), rank);
    if (found == group.end()) continue;
    require(*options.sharding_world_size == isize(group) && *options.sharding_rank == found - group.begin(),
            "rank {} is number {} of the {} ranks of its sharding group, but sharding_rank is {} and "
            "sharding_world_size is {}",
            rank, found - group.begin(), group.size(), *options.sharding_rank, *options.sharding_world_size);
  }
}

void check_types(const MixedPrecision& types) {
  for (const auto& type : {types.param_dtype, types.reduce_dtype})
    require(!type || is_float(*type), "mixed_precision takes floating-point types, got {}",
            [&] { return dtype_name(*type); });
  require(
      !types.reduce_dtype || (types.param_dtype && dtype_size(*types.param_dtype) <= dtype_size(*types.reduce_dtype)),
      "mixed_precision: reduce_dtype {} needs a param_dtype that is no wider",
      [&] { return dtype_name(*types.reduce_dtype); });
}

MixedPrecision precision_of(const FsdpOptions& options) {
  MixedPrecision types = options.mixed_precision;
  if (options.compute_dtype) {
    require(
        !types.param_dtype || types.param_dtype == options.compute_dtype,
        "compute_dtype and mixed_precision.param_dtype are two names of one option, but are {} and {}",
        [&] { return dtype_name(*options.compute_dtype); }, [&] { return dtype_name(*types.param_dtype); });
    types.param_dtype = options.compute_dtype;
  }
  if (options.fp32_reduce_scatter && types.param_dtype) types.reduce_dtype = types.reduce_dtype.value_or(DType::kF32);
  check_types(types);
  return types;
}

bool is_hybrid(const FsdpOptions& options) {
  return options.sharding_strategy == ShardingStrategy::kHybridShard ||
         options.sharding_strategy == ShardingStrategy::kHybridShardZero2;
}

// Without a mesh, hybrid sharding shards within a node and replicates over the nodes.
Mesh mesh_of_options(const FsdpOptions& options) {
  if (options.mesh) return *options.mesh;
  Mesh standard = default_mesh();
  if (!is_hybrid(options) || (standard.has_axis("fsdp") && standard.has_axis("data"))) return standard;
  const int nodes = job_info().nodes;
  require(nodes > 1 && device_count() % nodes == 0,
          "hybrid sharding shards over fsdp and replicates over data: give a mesh with both axes, such as "
          "data=2,fsdp=-1 (this job has {} devices on {} node{})",
          device_count(), nodes, nodes == 1 ? "" : "s");
  return Mesh({{"data", nodes}, {"fsdp", device_count() / nodes}});
}

}  // namespace

std::string ShardAxes::str() const {
  std::vector<std::string> names;
  for (const auto& axis : axes) names.push_back(mesh.axis_text(axis));
  return fmt::format("{}", fmt::join(names, "+"));
}

SpecEntry ShardAxes::rows() const {
  SpecEntry out;
  for (int a = 0; a < mesh.axis_count(); ++a) {
    const std::string& name = at(mesh.axes(), a).name;
    const bool shards_parameters =
        std::any_of(axes.begin(), axes.end(), [&](const AxisRef& axis) { return axis.axis == a; });
    if (name == "data" || name == "fsdp" || shards_parameters) out.push_back(name);
  }
  return out;
}

ShardAxes shard_axes(const FsdpOptions& options) {
  Mesh mesh = mesh_of_options(options);
  if (!options.sharding_groups.empty()) {
    check_place_in_groups(options);
    auto axes = axes_of_groups(mesh, options.sharding_groups);
    return {std::move(mesh), std::move(axes)};
  }
  require(!options.sharding_rank && !options.sharding_world_size,
          "sharding_rank and sharding_world_size describe sharding_groups, but there are none");
  if (!options.axis.empty()) {
    const AxisRef axis = mesh.full_axis(options.axis);
    return {std::move(mesh), {axis}};
  }
  for (const char* name : {"fsdp", "data"}) {
    if (!mesh.has_axis(name)) continue;
    require(!is_hybrid(options) || (mesh.has_axis("fsdp") && mesh.has_axis("data")),
            "hybrid sharding shards over fsdp and replicates over data; {} does not have both axes", mesh.str());
    const AxisRef axis = mesh.full_axis(name);
    return {std::move(mesh), {axis}};
  }
  fail("FSDP shards over an axis called fsdp or data; {} has neither (name another by .axis)", mesh.str());
}

UnitRules unit_rules(const FsdpOptions& options, const ShardAxes& axes) {
  UnitRules out;
  out.types = precision_of(options);
  const ReshardAfterForward& reshard = options.reshard_after_forward;
  out.reshards = reshard.reshards();
  if (options.sharding_strategy) {
    const ShardingStrategy strategy = *options.sharding_strategy;
    out.shards_parameters = strategy != ShardingStrategy::kNoShard && strategy != ShardingStrategy::kShardOptimizer;
    out.update = strategy == ShardingStrategy::kNoShard          ? UpdateShards::kNone
                 : strategy == ShardingStrategy::kShardOptimizer ? UpdateShards::kState
                                                                 : UpdateShards::kGradientAndState;
    out.reshards = strategy == ShardingStrategy::kFullShard || strategy == ShardingStrategy::kHybridShard;
  }
  if (!reshard.group()) return out;
  const std::int64_t group = *reshard.group();
  require(axes.axes.size() == 1 && group >= 1 && axes.size() % group == 0,
          "reshard_after_forward is {}: a number of devices must divide the {} devices of {}", group, axes.size(),
          axes.str());
  out.reshards = group > 1;
  out.kept_over = group < axes.size() ? group : 1;
  return out;
}

std::vector<std::string> notes_of_options(const FsdpOptions& options) {
  std::vector<std::string> out;
  const auto note = [&](bool differs, std::string_view name, std::string_view reason) {
    if (differs) out.push_back(fmt::format("{} has no effect: {}", name, reason));
  };
  note(!options.execute_sharding_on_init, "execute_sharding_on_init",
       "complete values are sharded at once, which takes no step, and other parameters are created as shards");
  note(options.flatten_parameters, "flatten_parameters",
       "parameters keep their names and shapes, and the gathers of a unit are combined without a flat copy");
  note(!options.optimization_barrier_in_forward, "optimization_barrier_in_forward",
       "the schedule decides when a unit is gathered, within the memory of the plan");
  note(!options.optimization_barrier_in_backward, "optimization_barrier_in_backward",
       "without a barrier the backward pass would reuse the gathered parameters of the forward pass: set "
       "reshard_after_forward to false for that");
  note(!options.pin_layout_in_collective_ops, "pin_layout_in_collective_ops",
       "ranks always check that they run the same program");
  note(options.coalesce_all_gather_ops, "coalesce_all_gather_ops",
       "the partitioner combines the gathers of a unit where memory allows");
  note(options.reduce_scatter_bucket_size_mb != 0, "reduce_scatter_bucket_size_mb",
       "the partitioner combines the reductions of a unit");
  note(options.shard_size_multiple != 128, "shard_size_multiple",
       "shards are not flat, so nothing is padded to a multiple");
  note(!options.use_xla_patched_linear, "use_xla_patched_linear",
       "the backward pass of a product always reads the parameter");
  return out;
}

}  // namespace fsdp
}  // namespace tessera
