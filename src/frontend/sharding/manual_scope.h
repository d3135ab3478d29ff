// SPDX-License-Identifier: Apache-2.0
// The manual regions in which this rank traces now.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"
#include "tessera/ops/manual_region.h"

namespace tessera {

class AxisNames;

/// The calls of shard_map under way on this rank, the innermost last.
struct ManualScopes {
  std::vector<ManualRegion> regions;
  std::optional<ManualRegion> enabled;  // by the last enable_manual_sharding()
  bool was_left = false;                // disable_manual_sharding() was called after it
};
ManualScopes& manual_scopes();

/// The axes for the collective `name`: in the innermost call, or in the region that enable_manual_sharding() made.
/// Errors: neither exists; an axis that the mesh does not
/// have or that the call leaves to the partitioner; an axis twice.
struct BoundAxes {
  Mesh mesh;
  std::vector<AxisRef> axes;
  [[nodiscard]] std::int64_t size() const { return axes_size(axes); }
  [[nodiscard]] ReplicaGroups groups() const { return {mesh.groups(axes)}; }
};
BoundAxes bound_axes(std::string_view name, const AxisNames& axes);

inline constexpr int kConstant = -1;
/// The number of manual regions around an instruction; kConstant if it depends on constants only. `regions` are those of
/// the instructions before it. A value that depends on the number of the device counts as one of a region, because it
/// has no global value.
int regions_around(const Instruction& instruction, const std::vector<int>& regions);
/// True if each device has its own value. In a function that is being traced into a computation of its own, only the ops
/// of this computation are known.
bool is_in_region(Value value);

/// A region over the named axes of a mesh; all of them if there are no names.
ManualRegion region_over(const Mesh& mesh, const std::vector<std::string>& names);
/// The placement of a spec in a region; the empty spec means replicated. Errors: an axis that is not the region's; the
/// number of entries.
Sharding placement_in(const ManualRegion& region, const PartitionSpec& spec, int ndim);
/// Traces the border of a region.
Tensor enter_at(const Tensor& tensor, const Sharding& placement, const ManualRegion& region,
                const std::source_location& where);
Tensor leave_at(const Tensor& tensor, const Sharding& placement, const ManualRegion& region,
                const std::source_location& where);
/// Errors if a dim of `global` does not divide.
void check_divides(const Type& global, const Sharding& placement);

}  // namespace tessera
