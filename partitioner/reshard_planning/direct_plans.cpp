// SPDX-License-Identifier: Apache-2.0
// The fallback plan: reduce, gather every dim that differs, slice.
#include "reshard_planning/moves.h"
#include "tessera/base/text.h"

namespace tessera::reshard {
namespace {

class Direct {
 public:
  explicit Direct(const Space& space) : space_(space), state_(space.start) {}

  std::vector<Move> run() {
    reduce();
    for (int slot = 0; slot < space_.slots(); ++slot) gather(slot);
    if (state_.to_order != space_.goal.to_order) reorder();
    for (int slot = 0; slot < space_.slots(); ++slot) slice(slot);
    partialize();
    return std::move(moves_);
  }

 private:
  // Ends a step; `next` is the state after it.
  void add(Move move, const State& next, std::int64_t bytes) {
    move.bytes = bytes;
    move.peak = space_.bytes(state_) + space_.bytes(next);
    if (move.kind == StepKind::kAllGather && !space_.is_leading(state_, move.slot)) move.peak += space_.bytes(next);
    move.after = state_ = next;
    moves_.push_back(move);
  }
  static void list(DimState& units, unsigned set) {
    for (int unit = 0; unit < kMaxUnits; ++unit)
      if ((set >> unit & 1) != 0) units.push(unit);
  }

  void reduce() {
    const bool same = space_.from_reduction == space_.to_reduction;
    const auto set = static_cast<std::uint16_t>(same ? state_.partial & ~space_.goal.partial : state_.partial);
    if (set == 0) return;
    Move move{StepKind::kAllReduce, -1, -1, {}, {}, 0, 1, 0};
    list(move.axes, set);
    State next = state_;
    next.partial = static_cast<std::uint16_t>(state_.partial & ~set);
    const auto group = space_.size_of(set);
    add(move, next, 2 * space_.bytes(state_) - ceil_div(2 * space_.bytes(state_), group));
  }

  void gather(int slot) {
    const DimState& dim = at(state_.dims, slot);
    const DimState& goal = at(space_.goal.dims, slot);
    if (dim.count() == 0 || (dim == goal && state_.to_order == space_.goal.to_order)) return;
    Move move{StepKind::kAllGather, slot, -1, dim, {}, 0, 1, 0};
    State next = state_;
    at(next.dims, slot) = {};
    at(next.dims, slot).length = at(space_.sizes, slot);
    add(move, next, space_.gather_bytes(state_, slot, space_.tiles(dim)));
  }

  void reorder() {
    const bool invariant = space_.used(state_) == 0;
    Move move{StepKind::kPermute, -1, -1, {}, {}, 0, invariant ? 0 : 1, 0};
    list(move.axes, (1U << space_.unit_count()) - 1);
    State next = state_;
    next.to_order = true;
    add(move, next, invariant ? 0 : space_.bytes(state_));
  }

  void slice(int slot) {
    const DimState& goal = at(space_.goal.dims, slot);
    if (at(state_.dims, slot) == goal) return;
    Move move{StepKind::kSlice, slot, -1, goal, {}, 0, 0, 0};
    State next = state_;
    at(next.dims, slot) = goal;
    add(move, next, 0);
  }

  void partialize() {
    const unsigned set = space_.goal.partial & ~static_cast<unsigned>(state_.partial);
    if (set == 0) return;
    Move move{StepKind::kPartialize, -1, -1, {}, {}, 0, 0, 0};
    list(move.axes, set);
    State next = state_;
    next.partial = space_.goal.partial;
    next.to_reduction = space_.goal.to_reduction;
    add(move, next, 0);
  }

  const Space& space_;
  State state_;
  std::vector<Move> moves_;
};

}  // namespace

std::vector<Move> gather_and_slice(const Space& space) { return Direct(space).run(); }

}  // namespace tessera::reshard
