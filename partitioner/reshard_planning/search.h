// SPDX-License-Identifier: Apache-2.0
// Searches for the plan with the least (seconds if links differ, bytes, collectives, peak memory). The search is A*
// over states, with a lower bound on the bytes that each device must receive.
#pragma once

#include "reshard_planning/moves.h"

namespace tessera::reshard {

/// The steps from space.start to space.goal; empty if they are equal.
std::vector<Move> find_moves(const Space& space);

/// Whether a step shards along axes that neither end of the plan uses, so that devices share a sum that each would
/// compute otherwise.
bool uses_idle_axes(const ReshardPlan& plan);
/// The best plan without such steps; the result of plan_reshard() if this cannot be determined.
ReshardPlan plan_without_idle_axes(const Type& global, const Sharding& from, const Sharding& to,
                                   const Topology& topology);

/// The direct exchange of pieces between two placements, if it is small enough to consider.
std::optional<Move> intersect_move(const Space& space, const State& state);

/// A lower bound on the bytes that some device still has to receive.
class Bound {
 public:
  explicit Bound(const Space& space);
  [[nodiscard]] std::int64_t operator()(const State& state) const;

 private:
  struct Sample {
    std::array<std::array<std::int64_t, kMaxUnits>, 2> coordinates{};  // of the device, in source and target order
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
