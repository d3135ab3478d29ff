// SPDX-License-Identifier: Apache-2.0
// Exact reductions of a decision graph: the reduced problem has an optimal assignment that extends to one of the
// whole problem at the same cost.
#pragma once

#include <vector>

#include "graph/model.h"
#include "tessera/solver/problem.h"

namespace tessera::solver {

/// A node that the reductions removed, with the costs by which its choice follows from those of its neighbours.
struct Removed {
  struct Link {
    int node = 0;
    std::vector<int> ids;       // the choices of the neighbour, in the problem's numbers
    std::vector<double> costs;  // [choices of the removed node, choices of the neighbour]
  };
  int node = 0;
  std::vector<int> ids;
  std::vector<double> costs;
  std::vector<Link> links;  // at most two
};

struct Reduced {
  Model model;
  std::vector<int> node;              // of each variable
  std::vector<std::vector<int>> ids;  // per variable: the problem's number of each choice
  std::vector<Removed> removed;       // in the order of removal
  std::int64_t work = 0;

  /// Returns the choice of every node of the problem.
  [[nodiscard]] std::vector<std::int32_t> extend(const Choices& choices) const;
};

/// Removes choices that are forbidden or dominated, edges that are sums of two vectors, and nodes without a say in
/// memory that have at most two neighbours. Errors: each combination is forbidden; the least usages exceed the limit.
Reduced reduce(const Problem& problem);

}  // namespace tessera::solver
