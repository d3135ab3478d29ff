// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/execution/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>

#include "execution/execute.h"
#include "execution/gather_from_ranks.h"
#include "tessera/base/error.h"
#include "tessera/collectives/time_limit.h"
#include "tessera/frontend/execution/runtime.h"

namespace tessera {
namespace {

constexpr std::chrono::seconds kNoLimit = std::chrono::hours(24 * 365 * 10);

// True if `mine` is the first of its value.
template <class T>
bool is_first_of(const std::vector<T>& all, int mine) {
  return std::find(all.begin(), all.end(), at(all, mine)) - all.begin() == mine;
}

}  // namespace

std::vector<std::string> rendezvous(const std::string& tag, const RendezvousOptions& options) {
  await_execution();
  const auto world = joined_world();
  if (world->size() == 1) return {options.payload};
  std::optional<TimeLimit> limit;
  if (options.timeout) {
    require(options.timeout->count() >= 0, "rendezvous \"{}\": the timeout is {} s; it must be at least 0", tag,
            options.timeout->count());
    limit.emplace(options.timeout->count() == 0 ? kNoLimit : *options.timeout);
  }
  return gather_texts_from_ranks(*world, options.payload, {0, fmt::format("rendezvous \"{}\"", tag)});
}

bool is_master_ordinal(MasterOptions options) {
  const auto world = joined_world();
  if (world->rank() == 0 || !options.local) return world->rank() == 0;
  if (const auto nodes = world->nodes(); !nodes.empty()) return is_first_of(nodes, world->rank());
  const auto& hosts = session().job.hosts;  // none: the ranks are threads
  return !hosts.empty() && is_first_of(hosts, world->rank());
}

}  // namespace tessera
