// SPDX-License-Identifier: Apache-2.0
// The planner of reshards: finds the collectives that change any sharding of an array to any other. It minimizes, in
// this order: the bytes received, the number of collectives, peak memory. If links differ or have a latency, it
// minimizes modelled time before these.
#pragma once

#include <string>
#include <vector>

#include "tessera/ir/builder.h"
#include "tessera/sharding/placement.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// The kinds of steps of a reshard plan.
enum class StepKind : std::uint8_t {
  kSlice,          // each device keeps a part of its tile: no bytes
  kAllGather,      // axes leave a dim
  kAllToAll,       // axes move from one dim to another
  kPermute,        // complete shards move between devices (device order, axis order, another mesh with equal tiles)
  kReduceScatter,  // partial axes become axes of a dim
  kAllReduce,      // partial axes become replicated
  kRealign,        // the boundaries of uneven tiles change: a few permutes of pieces
  kPartialize,     // replicated axes become partial: one device keeps the value, the others the identity: no bytes
  kIntersect,      // each device receives exactly the pieces it lacks (permutes); also across meshes
};
/// The name in ReshardPlan::str(): `all_to_all`.
std::string_view step_name(StepKind kind);

/// One step of a reshard plan.
struct ReshardStep {
  StepKind kind{};
  int dim = -1;     // the dim that loses or gains axes (source dim of kAllToAll)
  int to_dim = -1;  // kAllToAll: the dim that gains them
  std::vector<AxisRef> axes;
  Sharding after;  // the sharding after the step
  /// The tiles after the step. They are canonical, except within a plan for uneven sizes: a gather concatenates tiles
  /// and keeps their boundaries.
  std::vector<DimPlacement> tiles;
  std::int64_t bytes = 0;  // received by the device that receives the most
  int collectives = 0;     // instructions: 0 for kSlice and kPartialize, several for kRealign and kIntersect
  std::int64_t peak = 0;   // bytes of source, result and packing buffers while it runs
  double seconds = 0;      // modelled; 0 on a uniform topology
};

/// The steps that change the sharding `from` of an array to `to`.
struct ReshardPlan {
  Type global;
  Sharding from;
  Sharding to;
  std::vector<ReshardStep> steps;
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] std::int64_t peak() const;
  [[nodiscard]] double seconds() const;
  /// The number of collective instructions in the plan.
  [[nodiscard]] int collectives() const;
  /// `all_to_all{model}(0->1) 1024 B; slice{data}(0)`
  [[nodiscard]] std::string str() const;
};

/// Finds a plan between any two shardings that are valid for the type. They may be partial, uneven, or on different
/// meshes over the same devices. Errors: some sources and targets of kMaximal and kManual.
ReshardPlan plan_reshard(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology = {});
/// Returns the first criterion of the least expensive plan: bytes received on a uniform topology, else modelled
/// seconds. The result is cached.
double reshard_cost(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology = {});

/// The number of successive messages in one collective among g devices: 2(g-1) for an all-reduce, 1 for a permute, g-1
/// for the others.
std::int64_t messages_of(StepKind kind, std::int64_t group);
/// Returns latency * messages + bytes / bandwidth.
double exchange_seconds(const Link& link, std::int64_t messages, std::int64_t bytes);

/// Emits a plan in a per-device computation. `local` has the type shard_type(global, plan.from), and the result has
/// shard_type(global, plan.to). The padding of the result is undefined. Collectives get channel numbers from
/// `next_channel`, and `notes`.
struct ReshardEmitter {
  Builder& builder;
  std::int64_t& next_channel;
  NotesRef notes;
  Value emit(Value local, const ReshardPlan& plan);
};

/// Emits this device's coordinate over the axes as s32[]: arithmetic on partition-id, or a table if the device order
/// is not an iota.
Value emit_coordinate(Builder& builder, const Mesh& mesh, const std::vector<AxisRef>& axes);
/// Replaces the padding of `local` in the dims `dims` by the scalar `fill`.
Value emit_mask(Builder& builder, Value local, const Type& global, const Sharding& sharding,
                const std::vector<int>& dims, Value fill);

}  // namespace tessera
