// SPDX-License-Identifier: Apache-2.0
#include "auto_sharding/choose_shardings.h"

#include <algorithm>
#include <map>

#include "auto_sharding/decision_graph.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// The largest sum of the least usages of values that are alive together: no choice needs less.
std::int64_t least_memory(const solver::Problem& problem) {
  std::map<std::int64_t, std::int64_t> change;
  for (const solver::Node& node : problem.nodes) {
    if (node.usages.empty() || node.end <= node.begin) continue;
    const std::int64_t least = *std::min_element(node.usages.begin(), node.usages.end());
    change[node.begin] += least;
    change[node.end] -= least;
  }
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const auto& [time, bytes] : change) most = std::max(most, now += bytes);
  return most;
}

}  // namespace

std::vector<PropagationSlot> chosen_shardings(const Variant& variant, const MachineModel& machine,
                                              double memory_share) {
  constexpr std::int64_t kWorkPerNode = 200'000;
  const DecisionGraph graph(variant, machine);
  solver::Budget budget;
  budget.work = kWorkPerNode * isize(graph.problem().nodes);
  const solver::Solution solution = solver::solve(graph.problem(), budget);
  if (memory_share >= 1) return graph.slots_of(solution.choices);
  solver::Problem limited = graph.problem();
  const auto least = static_cast<double>(least_memory(limited));
  // Near the least memory, a feasible choice may be hard to find.
  for (const double above : {1.0, 1.02, 1.1, 1.3}) {
    limited.memory_limit =
        static_cast<std::int64_t>(std::max(memory_share * static_cast<double>(solution.peak), above * least));
    try {
      return graph.slots_of(solver::solve(limited, budget).choices);
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      continue;
    }
  }
  return graph.slots_of(solution.choices);
}

}  // namespace tessera
