// SPDX-License-Identifier: Apache-2.0
// Faults that a partitioner might have, planted into its results. The random programs must find them.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "random/dice.h"

#include "tessera/partitioner/pipeline/partition.h"

namespace tessera::testing {

struct FaultSite;

struct Fault {
  std::string_view name;
  /// Returns true if the fault can be planted at this instruction of a partitioned program.
  bool (*fits)(const FaultSite& site) = nullptr;
  /// Emits the faulty instruction. Returns null if this turns out to be impossible.
  Value (*plant)(Builder& builder, const FaultSite& site, const std::vector<Value>& operands) = nullptr;
};
const std::vector<Fault>& faults();

/// Returns `parts` with the fault at one random instruction of the partitioner, or nothing if there is no suitable
/// instruction.
std::optional<Partitioned> planted(const Fault& fault, const Partitioned& parts, Dice& dice);

}  // namespace tessera::testing
