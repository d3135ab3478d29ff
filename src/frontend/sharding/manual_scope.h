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
