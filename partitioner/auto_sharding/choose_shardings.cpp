// SPDX-License-Identifier: Apache-2.0
#include "auto_sharding/choose_shardings.h"

#include "auto_sharding/decision_graph.h"
#include "tessera/base/text.h"

namespace tessera {

std::vector<PropagationSlot> chosen_shardings(const Variant& variant, const MachineModel& machine,
                                              double memory_share) {
  constexpr std::int64_t kWorkPerNode = 200'000;
  const DecisionGraph graph(variant, machine);
  solver::Budget budget;
  budget.work = kWorkPerNode * isize(graph.problem().nodes);
  const solver::Solution solution = solver::solve(graph.problem(), budget);
  if (memory_share >= 1) return graph.slots_of(solution.choices);
  const auto limit = static_cast<std::int64_t>(memory_share * static_cast<double>(solution.peak));
  const auto limited = solver::solve_within(graph.problem(), limit, budget, solution.peak);
  return graph.slots_of(limited ? limited->choices : solution.choices);
}

}  // namespace tessera
