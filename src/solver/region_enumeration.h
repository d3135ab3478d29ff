// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "graph/assignment.h"

namespace tessera::solver {

/// The best choices of a few variables while all others stay, within the room of every point: prices for memory cannot
/// find assignments that use the last bytes of a limit. Depth first, with at most `steps` steps. Counts down `steps`.
/// Returns the choices in the order of `region`, or none if no better feasible ones were found. `now` is feasible.
std::vector<int> better_choices(const Model& model, const Assignment& now, const std::vector<int>& region,
                                std::int64_t& steps);

}  // namespace tessera::solver
