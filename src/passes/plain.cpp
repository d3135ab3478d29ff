// SPDX-License-Identifier: Apache-2.0
#include "plain.h"

#include <algorithm>
#include <string_view>

#include "tessera/passes/explanations.h"
#include "tessera/passes/stages.h"

namespace tessera {

namespace {

template <class May>
bool says_only(const Instruction& instruction, May&& may) {
  if (!instruction.control_predecessors.empty()) return false;
  if (!instruction.notes) return true;
  const auto& attributes = instruction.notes->frontend_attributes;
  return std::all_of(attributes.begin(), attributes.end(), [&](const auto& item) { return may(item.first); });
}

bool says_nothing(std::string_view key) {
  return key == "tessera.unit" || key == kStageAttribute || only_explains(key);
}

}  // namespace

bool is_plain(const Instruction& instruction) { return says_only(instruction, says_nothing); }

bool is_plain_or_grouped(const Instruction& instruction) {
  return says_only(instruction,
                   [](std::string_view key) { return key == "tessera.sharding_suffix" || says_nothing(key); });
}

bool says_something(const Sharding& sharding) {
  if (sharding.kind != Sharding::Kind::kTiled) return sharding.kind != Sharding::Kind::kUnknown;
  return sharding.dims.empty() || std::any_of(sharding.dims.begin(), sharding.dims.end(),
                                              [](const DimSharding& d) { return !d.open || !d.axes.empty(); });
}

}  // namespace tessera
