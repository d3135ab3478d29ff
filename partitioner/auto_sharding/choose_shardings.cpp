// SPDX-License-Identifier: Apache-2.0
#include "auto_sharding/choose_shardings.h"

#include "auto_sharding/decision_graph.h"

namespace tessera {

std::vector<PropagationSlot> chosen_shardings(const Variant& variant, const MachineModel& machine,
                                              std::optional<std::int64_t> memory) {
  const DecisionGraph graph(variant, machine, memory);
  const solver::Solution solution = solver::solve(graph.problem());
  return graph.slots_of(solution.choices);
}

}  // namespace tessera
