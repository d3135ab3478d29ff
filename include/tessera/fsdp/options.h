// SPDX-License-Identifier: Apache-2.0
// The options of FSDP, with the names and defaults of PyTorch/XLA's XlaFullyShardedDataParallel and PyTorch's
// fully_shard. docs/reference/fsdp.md lists all of them with their meaning here.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/fsdp/wrap_policy.h"
#include "tessera/nn/module.h"
#include "tessera/sharding/mesh.h"

namespace tessera {

/// Element types that differ from those of the parameters, as in PyTorch's FSDP.
struct MixedPrecision {
  /// Parameters are gathered and used in this type. Parameters, gradients and optimizer state are stored in the type
  /// of the parameter.
  std::optional<DType> param_dtype{};
  /// Gradients are reduced in this type; nullopt: in the type of the parameter.
  std::optional<DType> reduce_dtype{};
  /// Floating-point inputs of the wrapped module get the type param_dtype.
  bool cast_forward_inputs = true;
};

/// The values that are sharded in addition to the batch: the stages of ZeRO (Rajbhandari et al., 2020), with PyTorch's
/// names.
enum class ShardingStrategy : std::uint8_t {
  kFullShard,         // ZeRO-3: parameters, gradients, optimizer state; the backward pass gathers parameters again
  kShardGradOp,       // ZeRO-2: the same, but gathered parameters are kept until the backward pass
  kShardOptimizer,    // ZeRO-1: optimizer state only
  kNoShard,           // ZeRO-0: nothing; every device has complete parameters, gradients and optimizer state
  kHybridShard,       // kFullShard over `fsdp`, replicas over `data`
  kHybridShardZero2,  // kShardGradOp over `fsdp`, replicas over `data`
};
/// Returns the strategy of a stage of ZeRO, 0 to 3. Error for other numbers.
ShardingStrategy zero_stage(int stage);

/// How the gathered parameters of a unit are kept after its forward pass. True: they are freed, and the backward pass
/// gathers them again. False: they are kept. A number k: they are kept sharded over k devices, and the backward pass
/// gathers only over these k devices (as in PyTorch's fully_shard). The k devices are neighbours along the axis, for
/// example the ranks of a node.
class ReshardAfterForward {
 public:
  // NOLINTBEGIN(google-explicit-constructor): literals of the option
  template <std::same_as<bool> T>
  ReshardAfterForward(T reshard) : reshards_(reshard) {}
  template <std::same_as<int> T>
  ReshardAfterForward(T group) : group_(group) {}
  // NOLINTEND(google-explicit-constructor)
  [[nodiscard]] bool reshards() const { return reshards_; }
  /// The number of devices; nullopt for true and false.
  [[nodiscard]] std::optional<int> group() const { return group_; }
  friend bool operator==(const ReshardAfterForward& a, const ReshardAfterForward& b) = default;

 private:
  bool reshards_ = true;
  std::optional<int> group_;
};

/// Dummies replace parts of FSDP, so that the difference in memory and time shows what these parts cost (PyTorch/XLA:
/// the arguments `_debug_dummy_forward_pass`, …). With any of the first three, all results are wrong, and a warning
/// says so. The options of a unit apply to its parameters.
struct FsdpDebugOptions {
  /// Calls of a unit return values of the right types, which a few elementwise ops compute from the inputs and from all
  /// parameters of the unit and of units below it. Other functions of the unit than its call operator are not replaced.
  bool dummy_forward_pass = false;
  /// Instead of gathering a parameter, each device repeats its own shard.
  bool dummy_all_gather_op = false;
  /// Gradients are not reduced: each device keeps its part of its own partial gradient.
  bool dummy_reduce_scatter_op = false;
  /// Parameters that the backward pass gathers again do not wait for the gradient of their unit. Results stay right.
  bool dummy_optimization_barrier_op = false;
  /// The first word of the lines that `print` prints.
  std::string msg = "xla_fsdp";
  /// Rank 0 prints the number of units and parameters, and a line for each forward pass of a unit that is traced.
  bool print = false;
};

struct FsdpOptions {
  /// Nullopt: default_mesh(). If the strategy is hybrid and this mesh lacks `data` or `fsdp`: `data` over the nodes and
  /// `fsdp` within a node.
  std::optional<Mesh> mesh{};
  /// Null: each repeated block is a unit. If a submodule is already a unit, only the root unit is added.
  WrapPolicy auto_wrap_policy{};
  /// True: ZeRO-3. False: ZeRO-2. A number: see ReshardAfterForward.
  ReshardAfterForward reshard_after_forward = true;
  /// The parameters of the root unit stay gathered until the backward pass.
  bool disable_reshard_on_root = true;
  MixedPrecision mixed_precision{};
  /// The axis over which parameters are sharded; "": `fsdp` if the mesh has it, else `data`.
  std::string axis{};

  /// Replaces reshard_after_forward, unless that is a number. Nullopt: reshard_after_forward applies.
  std::optional<ShardingStrategy> sharding_strategy{};
  /// Shard dim 0 of each parameter, even if only another dim divides evenly.
  bool shard_param_on_dim_0 = false;
  /// Returns the dim of a parameter that is sharded. Nullopt: the default dim.
  std::function<std::optional<int>(const nn::NamedParameter& parameter)> shard_placement_fn{};
  /// Parameters in these modules are not sharded, and a policy neither visits these modules nor counts their
  /// parameters.
  std::vector<const nn::Module*> ignored_modules{};
  /// Parameters for which this is true are not sharded, and a policy does not count them.
  std::function<bool(const nn::NamedParameter& parameter)> ignored_parameters{};
  /// PyTorch/XLA's names: compute_dtype is mixed_precision.param_dtype, and fp32_reduce_scatter is reduce_dtype f32.
  std::optional<DType> compute_dtype{};
  /// Buffers of floats are used in this type; nullopt: in their own type.
  std::optional<DType> buffer_dtype{};
  bool fp32_reduce_scatter = false;
  /// Called for each unit below the root before it is sharded, after nn::Module::set_wrap_overrides(). It may change
  /// the module and the options of this unit (reshard_after_forward, mixed_precision, buffer_dtype,
  /// shard_param_on_dim_0, shard_placement_fn, sharding_strategy, debug).
  std::function<void(nn::Module& module, FsdpOptions& options)> auto_wrapper_callable{};
  /// Sets other initial values of a module. Called for each module whose parameters have no values yet, children before
  /// parents.
  std::function<void(nn::Module& module)> param_init_fn{};
  /// End the step at the end of each backward().
  bool sync_on_finalization = false;
  /// The groups of devices within which parameters are sharded. They must be the groups of axes of the mesh; these axes
  /// then replace `axis`. If groups are given, sharding_rank and sharding_world_size are required and checked.
  std::vector<std::vector<std::int64_t>> sharding_groups{};
  std::optional<std::int64_t> sharding_rank{};
  std::optional<std::int64_t> sharding_world_size{};

  // ---- accepted for programs of PyTorch/XLA; another value than the default gives a note ----------------------------

  bool flatten_parameters = false;
  bool execute_sharding_on_init = true;
  bool optimization_barrier_in_forward = true;
  bool optimization_barrier_in_backward = true;
  bool pin_layout_in_collective_ops = true;
  bool coalesce_all_gather_ops = false;
  std::int64_t reduce_scatter_bucket_size_mb = 0;
  std::int64_t shard_size_multiple = 128;
  bool use_xla_patched_linear = true;

  // ---- debugging ----------------------------------------------------------------------------------------------------

  FsdpDebugOptions debug{};
};

}  // namespace tessera
