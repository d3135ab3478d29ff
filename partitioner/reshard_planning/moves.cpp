// SPDX-License-Identifier: Apache-2.0
#include "reshard_planning/moves.h"

#include <algorithm>
#include <limits>

#include "reshard_planning/exchange_plan.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::reshard {
namespace {

// With at most this many units, every order and every combination is tried.
constexpr int kThorough = 4;

std::uint16_t bit(int unit) { return static_cast<std::uint16_t>(1U << unit); }

class Moves {
 public:
  Moves(const Space& space, const State& state, const TakeMove& take)
      : space_(space), state_(state), take_(take), used_(space.used(state)), bytes_(space.bytes(state)) {}

  void all() {
    if (reducible() != 0) reductions();
    slices();
    gathers();
    if (space_.unit_count() <= kThorough)
      choose_losers(0, Exchange{});
    else
      simple_exchanges();
    partializes();
    permutes();
    realigns();
    reorder();
  }

 private:
  [[nodiscard]] bool same_reduction() const { return space_.from_reduction == space_.to_reduction; }
  [[nodiscard]] std::uint16_t reducible() const {
    return same_reduction() || !state_.to_reduction ? state_.partial : std::uint16_t{0};
  }
  [[nodiscard]] bool thorough() const { return space_.unit_count() <= kThorough; }

  void take(Move& move, std::int64_t operand) {
    if (move.after.partial == 0) move.after.to_reduction = false;
    move.peak = operand + space_.bytes(move.after);
    const bool gathers = move.kind == StepKind::kAllGather;
    if ((gathers || move.kind == StepKind::kReduceScatter) && !space_.is_leading(state_, move.slot))
      move.peak += gathers ? space_.bytes(move.after) : operand;
    take_(move);
  }

  // The possible tile lengths of a slot after splitting it further by `factor`.
  [[nodiscard]] std::vector<std::int64_t> split_lengths(int slot, std::int64_t factor) const {
    const DimState& dim = at(state_.dims, slot);
    if (dim.count() == 0) return space_.lengths(slot, factor);
    if (dim.length % factor == 0) return {dim.length / factor};
    return {};
  }

  void slices() {
    auto barred = used_;
    if (!space_.idle_units)
      barred = static_cast<std::uint16_t>(barred | ~(space_.used(space_.start) | space_.used(space_.goal)));
    for (int unit = 0; unit < space_.unit_count(); ++unit) {
      if ((barred & bit(unit)) != 0) continue;
      for (int slot = 0; slot < space_.slots(); ++slot)
        for (const auto length : split_lengths(slot, space_.unit_size(unit))) {
          Move move{StepKind::kSlice, slot, -1, {}, state_, 0, 0, 0};
          move.axes.push(unit);
          at(move.after.dims, slot).push(unit);
          at(move.after.dims, slot).length = length;
          take(move, bytes_);
        }
    }
  }

  // Removes the last n units from a dim, which merges its tiles.
  std::int64_t join(State& state, int slot, int n, DimState& units) const {
    DimState& dim = at(state.dims, slot);
    std::int64_t factor = 1;
    for (int i = dim.count() - n; i < dim.count(); ++i) {
      units.push(at(dim.units, i));
      factor *= space_.unit_size(at(dim.units, i));
    }
    dim.pop(n);
    dim.length = dim.count() == 0 ? at(space_.sizes, slot) : dim.length * factor;
    return factor;
  }

  void gathers() {
    for (int slot = 0; slot < space_.slots(); ++slot)
      for (int n = 1; n <= at(state_.dims, slot).count(); ++n) {
        Move move{StepKind::kAllGather, slot, -1, {}, state_, 0, 1, 0};
        const auto factor = join(move.after, slot, n, move.axes);
        move.bytes = space_.gather_bytes(state_, slot, factor);
        take(move, bytes_);
      }
  }

  // ---- all-to-all: some dims lose their minor units, other dims gain them
  // ----------------------------------------------

  struct Exchange {
    std::array<std::uint8_t, kMaxSlots> lost{};
    std::array<DimState, kMaxSlots> gained{};
  };

  void choose_losers(int slot, Exchange exchange) {
    if (slot == space_.slots()) {
      DimState moved;
      for (int s = 0; s < space_.slots(); ++s) {
        const DimState& dim = at(state_.dims, s);
        for (int i = dim.count() - at(exchange.lost, s); i < dim.count(); ++i) moved.push(at(dim.units, i));
      }
      if (moved.count() > 0) assign(moved, 0, exchange);
      return;
    }
    for (int n = 0; n <= at(state_.dims, slot).count(); ++n) {
      at(exchange.lost, slot) = static_cast<std::uint8_t>(n);
      choose_losers(slot + 1, exchange);
    }
  }

  // Assigns the i-th moved unit to every dim that loses none, at every position among the units that the dim gained
  // before.
  void assign(const DimState& moved, int i, const Exchange& exchange) {
    if (i == moved.count()) {
      finish(moved, exchange, 0, state_, bytes_);
      return;
    }
    for (int slot = 0; slot < space_.slots(); ++slot) {
      if (at(exchange.lost, slot) > 0) continue;
      const DimState& gained = at(exchange.gained, slot);
      for (int place = gained.count(); place >= 0; --place) {
        Exchange next = exchange;
        DimState& list = at(next.gained, slot);
        list.push(at(moved.units, i));
        for (int j = list.count() - 1; j > place; --j) std::swap(at(list.units, j), at(list.units, j - 1));
        assign(moved, i + 1, next);
      }
    }
  }

  // Applies the gains slot by slot, for every possible tile length. `operand` includes the padding to equal parts.
  void finish(const DimState& moved, const Exchange& exchange, int slot, const State& after, std::int64_t operand) {
    while (slot < space_.slots() && at(exchange.gained, slot).count() == 0) ++slot;
    if (slot == space_.slots()) {
      Move move{StepKind::kAllToAll, -1, -1, moved, after, 0, 1, 0};
      DimState ignored;
      for (int s = 0; s < space_.slots(); ++s) {
        if (at(exchange.lost, s) > 0) {
          move.slot = s;
          join(move.after, s, at(exchange.lost, s), ignored);
        }
        if (at(exchange.gained, s).count() > 0) move.to_slot = s;
      }
      const auto group = space_.tiles(moved);
      move.bytes = operand / group * (group - 1);
      take(move, operand);
      return;
    }
    const DimState& gained = at(exchange.gained, slot);
    const auto factor = space_.tiles(gained);
    const auto full_length = at(state_.dims, slot).length;
    for (const auto length : split_lengths(slot, factor)) {
      State next = after;
      DimState& dim = at(next.dims, slot);
      for (int i = 0; i < gained.count(); ++i) dim.push(at(gained.units, i));
      dim.length = length;
      finish(moved, exchange, slot + 1, next, full_length == 0 ? 0 : operand / full_length * (length * factor));
    }
  }

  void simple_exchanges() {
    for (int from = 0; from < space_.slots(); ++from)
      for (int n = 1; n <= at(state_.dims, from).count(); ++n) {
        const DimState& dim = at(state_.dims, from);
        Exchange exchange;
        at(exchange.lost, from) = static_cast<std::uint8_t>(n);
        DimState moved;
        for (int i = dim.count() - n; i < dim.count(); ++i) moved.push(at(dim.units, i));
        for (int to = 0; to < space_.slots(); ++to) {
          if (to == from) continue;
          Exchange one = exchange;
          at(one.gained, to) = moved;
          finish(moved, one, 0, state_, bytes_);
        }
      }
  }

  // ---- reductions ---------------------------------------------------------------------------------------------------

  void reductions() {
    const auto all = reducible();
    for (unsigned set = all; set != 0; set = (set - 1) & all) {
      const auto chosen = static_cast<std::uint16_t>(set);
      if (!thorough() && chosen != all && (chosen & (chosen - 1)) != 0) continue;
      DimState units;
      for (int unit = 0; unit < space_.unit_count(); ++unit)
        if ((chosen & bit(unit)) != 0) units.push(unit);
      const auto group = space_.size_of(chosen);
      Move reduce{StepKind::kAllReduce, -1, -1, units, state_, 2 * bytes_ - ceil_div(2 * bytes_, group), 1, 0};
      reduce.after.partial = static_cast<std::uint16_t>(state_.partial & ~chosen);
      take(reduce, bytes_);
      for (int slot = 0; slot < space_.slots(); ++slot) scatters(slot, chosen, group, units);
    }
  }

  void scatters(int slot, std::uint16_t chosen, std::int64_t group, DimState order) {
    const auto full_length = at(state_.dims, slot).length;
    do {
      for (const auto length : split_lengths(slot, group)) {
        Move move{StepKind::kReduceScatter, slot, -1, order, state_, 0, 1, 0};
        DimState& dim = at(move.after.dims, slot);
        for (int i = 0; i < order.count(); ++i) dim.push(at(order.units, i));
        dim.length = length;
        move.after.partial = static_cast<std::uint16_t>(state_.partial & ~chosen);
        const auto operand = full_length == 0 ? 0 : bytes_ / full_length * (length * group);
        move.bytes = operand / group * (group - 1);
        take(move, operand);
      }
    } while (thorough() && std::next_permutation(order.units.begin(), order.units.begin() + order.count()));
  }

  void partializes() {
    if (!same_reduction() && state_.partial != 0 && !state_.to_reduction) return;
    const auto missing = static_cast<std::uint16_t>(space_.goal.partial & ~used_);
    if (missing == 0) return;
    Move move{StepKind::kPartialize, -1, -1, {}, state_, 0, 0, 0};
    for (int unit = 0; unit < space_.unit_count(); ++unit)
      if ((missing & bit(unit)) != 0) move.axes.push(unit);
    move.after.partial = static_cast<std::uint16_t>(state_.partial | missing);
    move.after.to_reduction = !same_reduction();
    take(move, bytes_);
  }

  // ---- permutes -----------------------------------------------------------------------------------------------------

  void permutes() {
    if (used_ == 0) return;
    State blank = state_;
    for (int s = 0; s < space_.slots(); ++s) at(blank.dims, s).pop(at(blank.dims, s).count());
    blank.partial = 0;
    if (thorough())
      arrange(0, 1, blank, 0);
    else
      arrange_like_goal(blank);
  }

  // Tries every assignment of units that keeps the number of tiles of each dim.
  void arrange(int slot, std::int64_t tiles, const State& state, std::uint16_t taken) {
    const bool in_dims = slot < space_.slots();
    const auto wanted = in_dims ? space_.tiles(at(state_.dims, slot)) : space_.size_of(state_.partial);
    if (tiles == wanted) {
      if (in_dims)
        arrange(slot + 1, 1, state, taken);
      else
        permuted(state);
      return;
    }
    const bool skip_smaller = !in_dims;  // the partial set has no order
    for (int unit = 0; unit < space_.unit_count(); ++unit) {
      if ((taken & bit(unit)) != 0 || wanted % (tiles * space_.unit_size(unit)) != 0) continue;
      if (skip_smaller && (state.partial >> unit) != 0) continue;
      State next = state;
      if (in_dims)
        at(next.dims, slot).push(unit);
      else
        next.partial = static_cast<std::uint16_t>(next.partial | bit(unit));
      arrange(slot, tiles * space_.unit_size(unit), next, static_cast<std::uint16_t>(taken | bit(unit)));
    }
  }

  // Tries one assignment: the goal's units where they fit, then the present ones, then any.
  void arrange_like_goal(State state) {
    auto taken = state_.partial;
    state.partial = state_.partial;
    std::array<std::int64_t, kMaxSlots> missing{};
    const auto fill = [&](int slot, int unit) {
      if ((taken & bit(unit)) != 0 || at(missing, slot) % space_.unit_size(unit) != 0) return false;
      taken = static_cast<std::uint16_t>(taken | bit(unit));
      at(state.dims, slot).push(unit);
      at(missing, slot) /= space_.unit_size(unit);
      return true;
    };
    for (int s = 0; s < space_.slots(); ++s) {
      at(missing, s) = space_.tiles(at(state_.dims, s));
      const DimState& goal = at(space_.goal.dims, s);
      for (int i = 0; i < goal.count(); ++i)
        if (!fill(s, at(goal.units, i))) break;
    }
    for (int s = 0; s < space_.slots(); ++s)
      for (int i = 0; i < at(state_.dims, s).count(); ++i) fill(s, at(at(state_.dims, s).units, i));
    for (int s = 0; s < space_.slots(); ++s)
      for (int unit = 0; unit < space_.unit_count(); ++unit) fill(s, unit);
    if (std::all_of(missing.begin(), missing.begin() + space_.slots(), [](auto rest) { return rest == 1; }))
      permuted(state);
  }

  void permuted(const State& after) {
    if (after == state_) return;
    Move move{StepKind::kPermute, -1, -1, {}, after, bytes_, 1, 0};
    for (int unit = 0; unit < space_.unit_count(); ++unit)
      if (place_of(state_, unit) != place_of(after, unit)) move.axes.push(unit);
    take(move, bytes_);
  }

  [[nodiscard]] int place_of(const State& state, int unit) const {
    for (int s = 0; s < space_.slots(); ++s)
      for (int i = 0; i < at(state.dims, s).count(); ++i)
        if (at(at(state.dims, s).units, i) == unit) return (s + 1) * kMaxUnits + i;
    return (state.partial & bit(unit)) != 0 ? 1 : 0;
  }

  // ---- lengths and order --------------------------------------------------------------------------------------------

  void realigns() {
    for (int slot = 0; slot < space_.slots(); ++slot) {
      const DimState& dim = at(state_.dims, slot);
      if (dim.count() == 0) continue;
      const auto tiles = space_.tiles(dim);
      const auto size = at(space_.sizes, slot);
      for (const auto length : space_.lengths(slot, tiles)) {
        if (length == dim.length) continue;
        const auto count = count_realign({size, tiles, dim.length, 0, dim.length}, {size, tiles, length, 0, length});
        Move move{StepKind::kRealign, slot, -1, dim, state_, count.rows * space_.rest_bytes, count.permutes, 0};
        for (int s = 0; s < space_.slots(); ++s)
          if (s != slot) move.bytes *= std::min(at(state_.dims, s).length, at(space_.sizes, s));
        at(move.after.dims, slot).length = length;
        take(move, bytes_);
      }
    }
  }

  void reorder() {
    if (state_.to_order || !space_.other_order) return;
    Move move{StepKind::kPermute, -1, -1, {}, state_, used_ == 0 ? 0 : bytes_, used_ == 0 ? 0 : 1, 0};
    for (int unit = 0; unit < space_.unit_count(); ++unit) move.axes.push(unit);
    move.after.to_order = true;
    take(move, bytes_);
  }

  const Space& space_;
  const State& state_;
  const TakeMove& take_;
  std::uint16_t used_;
  std::int64_t bytes_;
};

}  // namespace

double seconds_of(const Space& space, const Move& move) {
  if (space.links.empty() || move.collectives == 0) return 0;
  unsigned units = 0;  // the axes along which the devices of a group differ; an exchange of pieces may use all
  for (int i = 0; i < move.axes.count(); ++i) units |= 1U << at(move.axes.units, i);
  if (units == 0) units = (1U << space.unit_count()) - 1;
  Link link{0, std::numeric_limits<double>::infinity()};
  for (int unit = 0; unit < space.unit_count(); ++unit)
    if ((units >> unit & 1U) != 0) link = slower(link, at(space.links, unit));
  const auto group = space.size_of(static_cast<std::uint16_t>(units));
  return exchange_seconds(link, move.collectives * messages_of(move.kind, group), move.bytes);
}

void for_each_move(const Space& space, const State& state, const TakeMove& take) { Moves(space, state, take).all(); }

}  // namespace tessera::reshard
