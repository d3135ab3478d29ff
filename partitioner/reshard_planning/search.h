// SPDX-License-Identifier: Apache-2.0
// The search for the plan of least (seconds where links differ, bytes, collectives, peak): A* over states with a bound on what
// each device must receive.
#pragma once

#include "reshard_planning/moves.h"

namespace tessera::reshard {

/// The steps from space.start to space.goal; none when they are equal.
std::vector<Move> find_moves(const Space& space);

/// Whether a step cuts along axes that neither end of the plan uses: a sum shared out over devices that would all make it.
bool uses_idle_axes(const ReshardPlan& plan);
/// The best plan that does not; plan_reshard's where that cannot be told.
ReshardPlan plan_without_idle_axes(const Type& global, const Sharding& from, const Sharding& to,
                                   const Topology& topology);

/// The direct exchange of pieces between two placements, if it is worth considering.
std::optional<Move> intersect_move(const Space& space, const State& state);

/// A lower bound on the bytes that some device still has to receive.
class Bound {
 public:
  explicit Bound(const Space& space);
  [[nodiscard]] std::int64_t operator()(const State& state) const;

 private:
  struct Sample {
    std::array<std::array<std::int64_t, kMaxUnits>, 2> coordinates{};  // of the device in source and target order
    std::array<Interval, kMaxSlots> wanted{};
    std::int64_t wanted_elements = 1;
  };
  [[nodiscard]] Sample sample_at(std::int64_t position) const;
  [[nodiscard]] std::int64_t lacking(const Sample& sample, const State& state) const;
  [[nodiscard]] Interval interval(const Sample& sample, const State& state, int slot) const;
  [[nodiscard]] std::int64_t reduction_bytes(std::int64_t group, std::int64_t kept) const;
  const Space& space_;
  std::vector<Sample> samples_;
  std::int64_t largest_wanted_ = 0;
};

}  // namespace tessera::reshard
