// SPDX-License-Identifier: Apache-2.0
// The steps from one state to others, with their costs.
#pragma once

#include <functional>

#include "reshard_planning/search_space.h"

namespace tessera::reshard {

struct Move {
  StepKind kind{};
  int slot = -1;
  int to_slot = -1;
  DimState axes;  // the units of the step, in group order
  State after;
  std::int64_t bytes = 0;
  int collectives = 0;
  std::int64_t peak = 0;
};
/// The time of a move if links differ; 0 on a uniform topology.
double seconds_of(const Space& space, const Move& move);

using TakeMove = std::function<void(const Move&)>;

/// Calls `take` for every step from `state` except kIntersect. With many units, it does not try every order of axes.
void for_each_move(const Space& space, const State& state, const TakeMove& take);

/// Gathers all dims that differ, then slices. Always possible, but seldom optimal.
std::vector<Move> gather_and_slice(const Space& space);

}  // namespace tessera::reshard
