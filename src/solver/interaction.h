// SPDX-License-Identifier: Apache-2.0
// Elimination orders of the graph of variables.
#pragma once

#include <queue>
#include <tuple>
#include <vector>

#include "graph/model.h"

namespace tessera::solver {

/// Maps the variables of a model to their place in a list; -1 for all others. Kept between uses, because clearing it
/// costs as much as the model is large.
struct Places {
  explicit Places(const Model& model) : of(static_cast<std::size_t>(model.count()), -1) {}
  std::vector<int> of;
};

/// An order in which variables are eliminated. Variables are places in the list that was given.
struct EliminationOrder {
  std::vector<int> order;
  std::vector<std::vector<int>> scopes;  // per step: the later variables that meet in its table
  std::vector<int> held;                 // left out, because their tables would be too large
};

/// Orders `variables` by the size of the table that each makes; `places` maps them to their places. `seed` varies which
/// variables are held.
EliminationOrder find_order(const Model& model, const std::vector<int>& variables, const Places& places,
                            std::size_t largest, std::uint64_t seed = 0);

}  // namespace tessera::solver
