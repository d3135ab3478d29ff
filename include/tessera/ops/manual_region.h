// SPDX-License-Identifier: Apache-2.0
// Borders of manual regions, and a test whether devices have equal values within a region.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/builder.h"
#include "tessera/ops/collectives.h"
#include "tessera/sharding/sharding.h"

namespace tessera {

/// Shardy's attribute of a border: the axes that it adds or removes, `#sdy<manual_axes{"x", "y"}>`.
inline constexpr std::string_view kSdyManualAxes = "xla.sdy.manual_axes";

/// A manual region. Along `axes`, its code is per-device code.
struct ManualRegion {
  Mesh mesh;
  std::vector<AxisRef> axes;
  /// The axes of the region that shard no dim of `placement`. The array is replicated over them.
  [[nodiscard]] std::vector<AxisRef> axes_not_in(const Sharding& placement) const;
};
/// The region that a border enters or leaves; nullopt if the border does not name its axes.
std::optional<ManualRegion> region_of_border(const Instruction& border);
/// Returns the sharding of the global array over the axes of the region, at a border that enters the region.
Sharding placement_at_entry(Value border);

/// True if each device of a group is known to have the same value. False also means unknown.
bool is_equal_within(Value x, const ReplicaGroups& groups);

namespace ops {
/// Returns the shard of `global` under `placement`, which uses only axes of the region. Error if a size does not divide
/// evenly.
Value enter_region(Value global, const Sharding& placement, const ManualRegion& region);
/// The global array of type `global` whose shards under `placement` are `local`. Along other axes of the region, the
/// devices must have equal values.
Value leave_region(Value local, const Type& global, const Sharding& placement, const ManualRegion& region);
/// An all-reduce over some axes of a region. The first axis is the major one. If a group has one device, returns `x`.
Value all_reduce_over(Value x, Reduction reduction, const Mesh& mesh, const std::vector<AxisRef>& axes);
/// Returns the sum over each group. If the values of a group are known to be equal, it needs no communication.
Value sum_within(Value x, const ReplicaGroups& groups);
/// A channel that no other instruction of the computation has.
std::int64_t new_channel(const Builder& builder);
}  // namespace ops
}  // namespace tessera
