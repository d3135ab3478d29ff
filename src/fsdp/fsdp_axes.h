// SPDX-License-Identifier: Apache-2.0
// The axes over which FSDP shards, and checks of the options.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/tracing/inner.h"
#include "tessera/fsdp/options.h"
#include "tessera/sharding/mesh.h"

namespace tessera::fsdp {

struct ShardAxes {
  Mesh mesh;
  std::vector<AxisRef> axes;
  [[nodiscard]] std::int64_t size() const { return axes_size(axes); }
  /// `fsdp`, or `data+fsdp`.
  [[nodiscard]] std::string str() const;
  /// The axes that shard the rows of a batch: `data`, `fsdp` and those above.
  [[nodiscard]] SpecEntry rows() const;
};
/// Errors: the mesh has no such axis; the sharding groups are not those of axes of the mesh.
ShardAxes shard_axes(const FsdpOptions& options);

/// How the parameters of one unit are sharded: the options that PyTorch/XLA and PyTorch name differently, in one form.
struct UnitRules {
  bool shards_parameters = true;
  UpdateShards update = UpdateShards::kGradientAndState;
  bool reshards = true;
  std::int64_t kept_over = 1;  // devices that hold one gathered copy between the passes; 1: none
  MixedPrecision types;
};
/// Errors: types that are not floats, or a reduction in a narrower type; a number of devices that does not divide.
UnitRules unit_rules(const FsdpOptions& options, const ShardAxes& axes);

/// Sentences about options that differ from their defaults and have no effect.
std::vector<std::string> notes_of_options(const FsdpOptions& options);

}  // namespace tessera::fsdp
