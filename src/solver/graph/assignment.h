// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "graph/model.h"

namespace tessera::solver {

/// What an assignment, or a part of one, costs, and how far it is from feasible.
struct Score {
  int forbidden = 0;  // pairs that are not allowed
  double over = 0;    // bytes above the room, summed over the points
  double cost = 0;    // of all that is allowed

  [[nodiscard]] bool is_feasible() const { return forbidden == 0 && over <= 0; }
};

/// Costs are whole numbers: a smaller difference is a rounding error.
inline constexpr double kLeastGain = 0.5;

/// An assignment of all variables with its score.
struct Assignment {
  Assignment(const Model& model, Choices chosen);

  Choices choices;
  std::vector<double> use;  // per point, above the least usages
  Score score;
};

}  // namespace tessera::solver
