// SPDX-License-Identifier: Apache-2.0
// The one planner of collectives: from any sharding of an array to any other, by least bytes received, then fewest steps, then
// least peak; where links differ, by least modelled time before these. A collective is a change of placement.
#pragma once

#include <string>
#include <vector>

#include "tessera/ir/builder.h"
#include "tessera/sharding/placement.h"
#include "tessera/sharding/topology.h"

namespace tessera {

enum class StepKind : std::uint8_t {
  kSlice,          // each device drops what others keep: no bytes
  kAllGather,      // axes leave a dim
  kAllToAll,       // axes move from one dim to another
  kPermute,        // whole shards move between devices (device order, axis order, another mesh of equal tiles)
  kReduceScatter,  // partial axes become axes of a dim
  kAllReduce,      // partial axes become replicated
  kRealign,        // uneven boundaries move: a few permutes of pieces
  kPartialize,     // replicated axes become partial: one device keeps the value, the others the identity: no bytes
  kIntersect,  // each device receives exactly the pieces it lacks (permutes): any placement to any other, also across meshes
};
std::string_view step_name(StepKind kind);

struct ReshardStep {
  StepKind kind{};
  int dim = -1;     // the dim that loses or gains axes (source dim of kAllToAll)
  int to_dim = -1;  // kAllToAll: the dim that gains them
  std::vector<AxisRef> axes;
  Sharding after;  // the state behind the step
  /// Its tiles: canonical but inside a plan over uneven sizes, where tiles joined by a gather keep their boundaries.
  std::vector<DimPlacement> tiles;
  std::int64_t bytes = 0;  // received by one device (the most of any)
  int collectives = 0;     // instructions: 0 for kSlice and kPartialize, several for kRealign and kIntersect
  std::int64_t peak = 0;   // bytes of source, result and packing buffers while it runs
  double seconds = 0;      // modelled; 0 on a uniform topology
};

struct ReshardPlan {
  Type global;
  Sharding from;
  Sharding to;
  std::vector<ReshardStep> steps;
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] std::int64_t peak() const;
  [[nodiscard]] double seconds() const;
  /// Collective instructions that the plan becomes.
  [[nodiscard]] int collectives() const;
  /// `all_to_all{model}(0->1) 1024 B; slice{data}(0)`
  [[nodiscard]] std::string str() const;
};

/// Total over all pairs of shardings of one type that fit it (partial sources and targets, uneven sizes, different meshes over
/// the same devices). From kMaximal and kManual: see the body's errors. A target may be partial only where the source is, or
/// by kPartialize.
ReshardPlan plan_reshard(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology = {});
/// What plans are chosen by, first of all: bytes on a uniform topology, else modelled seconds. Memoised.
double reshard_cost(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology = {});

/// Messages that follow one another in one collective among `group` devices: g-1 of a ring, twice for an all-reduce, one for a
/// permute.
std::int64_t messages_of(StepKind kind, std::int64_t group);
/// latency * messages + bytes / bandwidth
double exchange_seconds(const Link& link, std::int64_t messages, std::int64_t bytes);

/// Emits a plan in a per-device computation: `local` has shard_type(global, plan.from); the result has that of plan.to.
/// The padding of the result is undefined. Collectives get `channel` numbers from next_channel and notes (with frontend attribute
/// tessera.reason where given).
struct ReshardEmitter {
  Builder& builder;
  std::int64_t& next_channel;
  NotesRef notes;
  Value emit(Value local, const ReshardPlan& plan);
};

/// This device's coordinate over axes as s32[]: arithmetic on partition-id, or a table where the device order is not iota.
Value emit_coordinate(Builder& builder, const Mesh& mesh, const std::vector<AxisRef>& axes);
/// `local` with its padding (positions at or beyond the global size in unevenly sharded dims among `dims`) replaced by the scalar.
Value emit_mask(Builder& builder, Value local, const Type& global, const Sharding& sharding,
                const std::vector<int>& dims, Value fill);

}  // namespace tessera
