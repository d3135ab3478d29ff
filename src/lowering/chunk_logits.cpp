// SPDX-License-Identifier: Apache-2.0
// Computes a product that would be by far the largest value (the logits of a vocabulary), and all values of that size
// that depend on it, in chunks along one dim (and a second one if these are still too large). The complete values are
// never in memory. Results of the chunks are either small (losses, the gradient of the hidden rows) and concatenated,
// or they are sums over the dim (the gradient of the weights) and added in place.
#include <algorithm>
#include <boost/dynamic_bitset.hpp>

#include "chunk_region.h"
#include "tessera/base/text.h"
#include "tessera/lowering/lowering.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace {

// The number of chunks of `size` such that none has more than `most_bytes` of the `bytes`. Prefers equal chunks if
// these are not many more.
std::int64_t parts_of(std::int64_t size, std::int64_t bytes, std::int64_t most_bytes) {
  constexpr std::int64_t kMostParts = 64;
  const std::int64_t fewest = std::min({size, ceil_div(bytes, most_bytes), kMostParts});
  for (std::int64_t parts = fewest; parts <= std::min(size, 2 * fewest); ++parts)
    if (size % parts == 0) return parts;
  return fewest;
}

// The first dim that can be chunked, and the next one too if the chunks are still too large.
ChunkPlan plan_for(const Program& program, const std::vector<std::vector<Id>>& users, Id seed,
                   std::int64_t most_bytes) {
  const Computation& entry = program.entry_computation();
  const Type& type = entry[seed].type;
  const std::int64_t large = type.byte_size() / 4;
  std::int64_t left = type.byte_size();
  ChunkPlan plan;
  for (int d = 0; d < type.ndim() && left > most_bytes; ++d) {
    const std::int64_t parts = parts_of(type.dim(d), left, most_bytes);
    if (parts < 2) continue;
    ChunkRegion region(program, entry, users, seed, d, [large](const Type& one) { return one.byte_size() >= large; });
    const bool fits = plan.empty() ? region.works() && region.dims().size() > 1
                                   : region.works() && same_members(region, plan.front().region);
    if (!fits) continue;
    plan.push_back({std::move(region), parts});
    left = ceil_div(left, parts);
  }
  return plan;
}

}  // namespace

std::optional<Program> chunk_logits(const Program& program, std::int64_t most_bytes) {
  const Computation& entry = program.entry_computation();
  std::vector<std::vector<Id>> users;
  std::vector<ChunkPlan> plans;
  boost::dynamic_bitset<> taken(entry.instructions.size());
  for (Id id = 0; id < entry.size(); ++id) {
    if (at(taken, id) || entry[id].op != &rows::kDot || entry[id].type.byte_size() <= most_bytes) continue;
    if (users.empty()) users = entry.users();
    ChunkPlan plan = plan_for(program, users, id, most_bytes);
    if (plan.empty()) continue;
    const ChunkRegion region = plan.front().region;
    if (!add_plan(program, plans, std::move(plan))) continue;
    for (const auto& [member, dim] : region.dims()) at(taken, member) = true;
  }
  return plans.empty() ? std::nullopt : std::optional(chunk_regions(program, plans));
}

}  // namespace tessera
