// SPDX-License-Identifier: Apache-2.0
// The steps that lead from a state to others, with what they cost.
#pragma once

#include <functional>

#include "reshard_planning/search_space.h"

namespace tessera::reshard {

struct Move {
  StepKind kind{};
  int slot = -1;
  int to_slot = -1;
  DimState axes;  // the units concerned, in group order
  State after;
  std::int64_t bytes = 0;
  int collectives = 0;
  std::int64_t peak = 0;
};
/// What it takes where links differ; 0 on a uniform topology.
double seconds_of(const Space& space, const Move& move);

using TakeMove = std::function<void(const Move&)>;

/// Calls `take` for every step but kIntersect that can be made from `state`. With many units not every order of axes is tried.
void for_each_move(const Space& space, const State& state, const TakeMove& take);

/// Gathers what differs, then slices: always possible, seldom best.
std::vector<Move> gather_and_slice(const Space& space);

}  // namespace tessera::reshard
