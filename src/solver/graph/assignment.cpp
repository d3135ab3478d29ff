// SPDX-License-Identifier: Apache-2.0
#include "graph/assignment.h"

#include <algorithm>

namespace tessera::solver {

Assignment::Assignment(const Model& model, Choices chosen) : choices(std::move(chosen)), use(model.room.size() + 1, 0) {
  score.cost = model.constant;
  for (std::size_t v = 0; v < choices.size(); ++v) {
    const std::size_t i = model.offset[v] + static_cast<std::size_t>(choices[v]);
    score.cost += model.cost[i];
    use[static_cast<std::size_t>(model.begin[v])] += model.usage[i];
    use[static_cast<std::size_t>(model.end[v])] -= model.usage[i];
  }
  for (const ModelEdge& edge : model.edges) {
    const double* row = model.row(edge, edge.a, choices[static_cast<std::size_t>(edge.a)]);
    const double pair = row[choices[static_cast<std::size_t>(edge.b)]];
    if (is_never(pair))
      ++score.forbidden;
    else
      score.cost += pair;
  }
  use.pop_back();
  double sum = 0;
  for (std::size_t t = 0; t < use.size(); ++t) {
    sum += use[t];
    use[t] = sum;
    score.over += std::max(0.0, sum - model.room[t]);
  }
}

}  // namespace tessera::solver
