// SPDX-License-Identifier: Apache-2.0
// The kinds of shardings that PyTorch/XLA distinguishes.
#pragma once

#include <string_view>

#include "tessera/sharding/sharding.h"

namespace tessera {

/// The numbers are those of PyTorch/XLA's ShardingType.
enum class ShardingType : std::uint8_t {
  kReplicated = 0,
  kMaximal = 1,  // one device
  kTuple = 2,
  kTiled = 3,
  kManual = 4,
  kPartial = 5,  // tiled, and replicated over some axes
  kUnknown = 6
};

/// `REPLICATED`, `MAXIMAL`, ….
std::string_view sharding_type_name(ShardingType type);
/// Returns the type: MAXIMAL if the mesh has one device, REPLICATED if no dim is sharded, PARTIAL if there are fewer
/// tiles than devices.
ShardingType sharding_type(const Sharding& sharding);

}  // namespace tessera
