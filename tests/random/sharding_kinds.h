// SPDX-License-Identifier: Apache-2.0
// The kinds of annotation there are, and random ones of each.
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
  kOneAxis,           // a dim tiled by one axis
  kSeveralAxes,       // a dim tiled by several axes
  kSeveralDims,       // several dims tiled
  kSubAxis,           // by a part of an axis
  kPartlyReplicated,  // tiled, and some devices hold the same
  kUneven,            // tiles of a dim that they do not divide
  kMaximal,
  kUnreduced,
  kDeviceOrder,  // tiled in an order of devices that no axis explains
  kOpen,         // some dim left to propagation (unspecified_dims)
  kUnknown,      // all left to propagation
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

/// All kinds that an instruction's annotation is of; none without one.
ShardingKinds kinds_of(const Instruction& instruction);
/// Of one leaf.
ShardingKinds kinds_of(const Type& type, const Sharding& sharding);

/// The frontend attribute that stands for what is behind `sharding={..}`: ` shard_as 1`.
inline constexpr std::string_view kSuffixAttribute = "tessera.sharding_suffix";

class RandomShardings {
 public:
  /// Over a mesh that has shardings of `kind`.
  RandomShardings(Dice& dice, ShardingKind kind);

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  /// Of this kind; null where the type has none. `manual`: the axes of the region the value is in, which only mesh() has.
  std::optional<Sharding> of_kind(const Type& leaf, ShardingKind kind, const std::vector<AxisRef>& manual);
  /// Of any kind, mostly tiled.
  Sharding any(const Type& leaf, const std::vector<AxisRef>& manual);
  Sharding whole(int ndim, const std::vector<AxisRef>& manual) const;
  /// Some axes, at least one; all when `all`.
  std::vector<AxisRef> manual_axes(bool all);

 private:
  Sharding tiled(int ndim, const Mesh& mesh, const std::vector<AxisRef>& manual);
  Sharding drawn(const Type& leaf, ShardingKind kind, const std::vector<AxisRef>& manual);
  bool add_partial(Sharding& sharding, DType dtype);

  Dice& dice_;
  Mesh mesh_;
  Mesh ordered_;  // other axes and another device order
};

}  // namespace tessera::testing
