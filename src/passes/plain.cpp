// SPDX-License-Identifier: Apache-2.0
#include "plain.h"

#include <algorithm>

namespace tessera {
namespace {

bool explains_only(std::string_view key) {
  return key == "tessera.unit" || key == "tessera.why" || key == "tessera.reason" || key == "tessera.from" ||
         key == "tessera.to" || key == "tessera.remedy";
}

}  // namespace

bool is_plain(const Instruction& instruction) {
  if (!instruction.control_predecessors.empty()) return false;
  if (!instruction.notes) return true;
  const auto& attributes = instruction.notes->frontend_attributes;
  return std::all_of(attributes.begin(), attributes.end(), [](const auto& item) { return explains_only(item.first); });
}

bool says_something(const Sharding& sharding) {
  if (sharding.kind != Sharding::Kind::kTiled) return sharding.kind != Sharding::Kind::kUnknown;
  return sharding.dims.empty() || std::any_of(sharding.dims.begin(), sharding.dims.end(),
                                              [](const DimSharding& d) { return !d.open || !d.axes.empty(); });
}

}  // namespace tessera
