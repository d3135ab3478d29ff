// SPDX-License-Identifier: Apache-2.0
// The kinds of annotations, and random annotations of each kind.
#pragma once

#include <bitset>
#include <optional>
#include <string_view>
#include <vector>

#include "random/dice.h"

#include "tessera/ir/program.h"

namespace tessera::testing {

enum class ShardingKind : std::uint8_t {
  kReplicated,
  kOneAxis,           // one axis shards a dim
  kSeveralAxes,       // several axes shard a dim
  kSeveralDims,       // several dims are sharded
  kSubAxis,           // a sub-axis shards a dim
  kPartlyReplicated,  // sharded, and some devices hold equal shards
  kUneven,            // the number of tiles does not divide the dim
  kMaximal,
  kUnreduced,
  kDeviceOrder,  // sharded with a device order that no axis describes
  kOpen,         // some dims left to propagation (unspecified_dims)
  kUnknown,      // all dims left to propagation
  kShardAs,
  kShardLike,
  kTuple,  // one for each leaf of a tuple
  kManual,
  kManualSubgroup,
  kCount
};
inline constexpr int kKindCount = static_cast<int>(ShardingKind::kCount);
using ShardingKinds = std::bitset<static_cast<std::size_t>(kKindCount)>;
std::string_view kind_name(ShardingKind kind);

/// Returns all kinds of an instruction's annotation; none if it has no annotation.
ShardingKinds kinds_of(const Instruction& instruction);
/// Returns all kinds for one leaf.
ShardingKinds kinds_of(const Type& type, const Sharding& sharding);

/// The frontend attribute for the text after `sharding={..}`: ` shard_as 1`.
inline constexpr std::string_view kSuffixAttribute = "tessera.sharding_suffix";

class RandomShardings {
 public:
  /// Chooses a mesh that has shardings of `kind`.
  RandomShardings(Dice& dice, ShardingKind kind);

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  /// Returns a sharding of this kind, or nothing if the type has none. `manual` are the axes of the region that
  /// contains the value; only mesh() has them.
  std::optional<Sharding> of_kind(const Type& leaf, ShardingKind kind, const std::vector<AxisRef>& manual);
  /// Returns a sharding of any kind, in most cases tiled.
  Sharding any(const Type& leaf, const std::vector<AxisRef>& manual);
  Sharding replicated(int ndim, const std::vector<AxisRef>& manual) const;
  /// Returns at least one axis, or all if `all`.
  std::vector<AxisRef> manual_axes(bool all);

 private:
  Sharding tiled(int ndim, const Mesh& mesh, const std::vector<AxisRef>& manual);
  Sharding drawn(const Type& leaf, ShardingKind kind, const std::vector<AxisRef>& manual);
  bool add_partial(Sharding& sharding, DType dtype);

  Dice& dice_;
  Mesh mesh_;
  Mesh ordered_;  // the same devices with other axes and in another order
};

}  // namespace tessera::testing
