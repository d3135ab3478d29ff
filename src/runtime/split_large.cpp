// SPDX-License-Identifier: Apache-2.0
// A product that would be the largest value by far (a vocabulary's logits), and everything as large that is made of it, in parts along one
// dim, part after part: the whole never lies in memory. What leaves the parts is small (losses, the gradient of the hidden rows) and is
// put together, or sums over the dim (the gradient of the weights) and is added up in place.
#include "cut_region.h"
#include "prepare.h"

namespace tessera {
namespace {

std::optional<int> first_dim(const Type& type) {
  for (int d = 0; d < type.ndim(); ++d)
    if (type.dim(d) > 1) return d;
  return std::nullopt;
}

}  // namespace

Program split_large(const Program& program, std::int64_t most_bytes) {
  const Computation& entry = program.entry_computation();
  std::vector<std::vector<Id>> users;
  std::vector<CutPlan> plans;
  std::set<Id> taken;
  for (Id id = 0; id < entry.size(); ++id) {
    const Type& type = entry[id].type;
    if (taken.contains(id) || entry[id].op->name != "dot" || type.byte_size() <= most_bytes) continue;
    const auto dim = first_dim(type);
    if (!dim) continue;
    const std::int64_t parts = equal_parts(type.dim(*dim), type.byte_size(), most_bytes);
    if (parts < 2) continue;
    if (users.empty()) users = entry.users();
    const std::int64_t large = type.byte_size() / 4;
    CutRegion region(program, entry, users, id, *dim, [large](const Type& one) { return one.byte_size() >= large; });
    if (!region.works() || region.cut().size() < 2 || !add_plan(program, plans, {{region, parts}})) continue;
    for (const auto& [member, cut] : region.cut()) taken.insert(member);
  }
  return plans.empty() ? program : cut_regions(program, plans);
}

}  // namespace tessera
