// SPDX-License-Identifier: Apache-2.0
#include "plain.h"

#include <algorithm>

#include "tessera/passes/explanations.h"

namespace tessera {

bool is_plain(const Instruction& instruction) {
  if (!instruction.control_predecessors.empty()) return false;
  if (!instruction.notes) return true;
  const auto& attributes = instruction.notes->frontend_attributes;
  return std::all_of(attributes.begin(), attributes.end(),
                     [](const auto& item) { return item.first == "tessera.unit" || only_explains(item.first); });
}

bool says_something(const Sharding& sharding) {
  if (sharding.kind != Sharding::Kind::kTiled) return sharding.kind != Sharding::Kind::kUnknown;
  return sharding.dims.empty() || std::any_of(sharding.dims.begin(), sharding.dims.end(),
                                              [](const DimSharding& d) { return !d.open || !d.axes.empty(); });
}

}  // namespace tessera
