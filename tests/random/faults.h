// SPDX-License-Identifier: Apache-2.0
// Faults as a partitioner might have them, planted into what it made: what the random programs must find.
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
  /// Whether `instruction` of a partitioned program is a place for it.
  bool (*fits)(const FaultSite& site) = nullptr;
  /// What stands there instead; null when the place does not allow it after all.
  Value (*plant)(Builder& builder, const FaultSite& site, const std::vector<Value>& operands) = nullptr;
};
const std::vector<Fault>& faults();

/// `parts` with the fault in one drawn place that the partitioner made; null where there is none.
std::optional<Partitioned> planted(const Fault& fault, const Partitioned& parts, Dice& dice);

}  // namespace tessera::testing
