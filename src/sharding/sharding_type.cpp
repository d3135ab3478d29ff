// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/sharding_type.h"

namespace tessera {

std::string_view sharding_type_name(ShardingType type) {
  constexpr std::string_view kNames[] = {"REPLICATED", "MAXIMAL", "TUPLE", "TILED", "MANUAL", "PARTIAL", "UNKNOWN"};
  return kNames[static_cast<int>(type)];
}

ShardingType sharding_type(const Sharding& sharding) {
  if (sharding.kind == Sharding::Kind::kUnknown) return ShardingType::kUnknown;
  if (sharding.kind == Sharding::Kind::kManual || !sharding.manual.empty()) return ShardingType::kManual;
  if (sharding.kind == Sharding::Kind::kMaximal || sharding.mesh.device_count() == 1) return ShardingType::kMaximal;
  std::int64_t tiles = 1;
  for (int d = 0; d < sharding.ndim(); ++d) tiles *= sharding.tiles(d);
  if (tiles == 1) return ShardingType::kReplicated;
  return tiles == sharding.mesh.device_count() ? ShardingType::kTiled : ShardingType::kPartial;
}

}  // namespace tessera
