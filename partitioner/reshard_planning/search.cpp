// SPDX-License-Identifier: Apache-2.0
#include "reshard_planning/search.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <queue>
#include <tuple>

#include "reshard_planning/exchange_plan.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::reshard {
namespace {

constexpr std::int64_t kMaxPermutes = 16;  // of one exchange between even tilings
constexpr std::int64_t kMaxParts = 2048;   // only exchanges with fewer parts consider device lists
constexpr int kMaxVisits = 20000;          // after that, the best known plan is used

struct PathCost {
  double seconds = 0;  // 0 on a uniform topology
  std::int64_t bytes = 0;
  int collectives = 0;
  std::int64_t peak = 0;
  int steps = 0;
  friend auto operator<=>(const PathCost&, const PathCost&) = default;
};

PathCost cost_after(const Space& space, const PathCost& cost, const Move& move) {
  const int weight = move.kind == StepKind::kIntersect ? 2 : 1;  // prefer two simple steps to one exchange
  return {cost.seconds + seconds_of(space, move), cost.bytes + move.bytes, cost.collectives + move.collectives,
          std::max(cost.peak, move.peak), cost.steps + weight};
}

Placement placement(const Space& space, const State& state) { return {space.sharding(state), space.placement(state)}; }

// The number of parts that an exchange over device lists would examine.
std::int64_t part_estimate(const Placement& before, const Placement& after) {
  std::int64_t parts = before.sharding.mesh.device_count();
  for (int d = 0; d < isize(before.dims); ++d) {
    const auto length = std::max<std::int64_t>(at(before.dims, d).length, 1);
    if (at(before.dims, d).tiles > 1) parts *= ceil_div(at(after.dims, d).length, length) + 1;
  }
  return parts;
}

class Search {
 public:
  explicit Search(const Space& space) : space_(space), bound_(space) {
    double fastest = 0;
    for (const Link& link : space.links) fastest = std::max(fastest, link.bytes_per_second);
    if (fastest > 0) least_seconds_per_byte_ = 1 / fastest;
  }

  std::vector<Move> run() {
    if (const auto direct = intersect_move(space_, space_.start)) offer({*direct});
    if (!limited()) offer(gather_and_slice(space_));
    visit(-1, {}, space_.start, {});
    while (!queue_.empty()) {
      const int index = std::get<1>(queue_.top());
      queue_.pop();
      const State state = at(nodes_, index).move.after;
      if (at(nodes_, index).cost > best_.at(state)) continue;
      if (state == space_.goal) return path_to(index);
      if (++visits_ > kMaxVisits) break;
      expand(index, state);
    }
    return incumbent_;
  }

 private:
  struct Node {
    Move move;  // the move to this state
    int parent;
    PathCost cost;
  };

  // Whether buffers are limited: even exchanges never need a buffer larger than source and target. Reductions and
  // padding can make larger buffers worthwhile.
  [[nodiscard]] bool limited() const { return limit_ > 0; }

  void offer(std::vector<Move> moves) {
    PathCost cost;
    for (const Move& move : moves) cost = cost_after(space_, cost, move);
    if (incumbent_found_ && cost >= incumbent_cost_) return;
    incumbent_found_ = true;
    incumbent_cost_ = cost;
    incumbent_ = std::move(moves);
    const bool exact = space_.links.empty() && incumbent_.size() == 1 && cost.bytes == bound_(space_.start);
    if (exact) limit_ = std::max(space_.bytes(space_.start), space_.bytes(space_.goal));
  }

  void visit(int parent, const PathCost& cost, const State& after, Move move) {
    const auto lacking = bound_(after);
    const auto least = cost.bytes + lacking;
    const auto least_seconds = cost.seconds + static_cast<double>(lacking) * least_seconds_per_byte_;
    if (incumbent_found_ && is_worse(least_seconds, least, cost.collectives)) return;
    if (limited() && space_.bytes(after) > limit_) return;
    const auto [entry, fresh] = best_.try_emplace(after, cost);
    if (!fresh) {
      if (entry->second <= cost) return;
      entry->second = cost;
    }
    move.after = after;
    nodes_.push_back({move, parent, cost});
    queue_.emplace(PathCost{least_seconds, least, cost.collectives, cost.peak, cost.steps}, isize(nodes_) - 1);
  }

  // Whether every plan from here is worse than the best known plan.
  [[nodiscard]] bool is_worse(double seconds, std::int64_t bytes, int collectives) const {
    if (!space_.links.empty()) return seconds > incumbent_cost_.seconds;
    return bytes > incumbent_cost_.bytes ||
           (bytes == incumbent_cost_.bytes && collectives > incumbent_cost_.collectives);
  }

  void expand(int index, const State& state) {
    const PathCost cost = at(nodes_, index).cost;
    const StepKind kind = at(nodes_, index).move.kind;
    for_each_move(space_, state, [&](const Move& move) {
      const State after = move.after;
      const PathCost next = cost_after(space_, cost, move);
      visit(index, next, after, move);
    });
    const bool reduced =
        kind == StepKind::kAllReduce || kind == StepKind::kReduceScatter || kind == StepKind::kPartialize;
    const bool is_start = at(nodes_, index).parent < 0;
    if (!reduced && !is_start) return;
    if (auto move = intersect_move(space_, state)) {
      const PathCost next = cost_after(space_, cost, *move);
      visit(index, next, space_.goal, *move);
    }
  }

  [[nodiscard]] std::vector<Move> path_to(int index) const {
    std::vector<Move> moves;
    for (; at(nodes_, index).parent >= 0; index = at(nodes_, index).parent) moves.push_back(at(nodes_, index).move);
    std::reverse(moves.begin(), moves.end());
    return moves;
  }

  using Entry = std::pair<PathCost, int>;
  const Space& space_;
  Bound bound_;
  std::vector<Node> nodes_;
  boost::unordered_flat_map<State, PathCost, StateHash> best_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<Move> incumbent_;
  PathCost incumbent_cost_;
  bool incumbent_found_ = false;
  std::int64_t limit_ = 0;
  double least_seconds_per_byte_ = 0;
  int visits_ = 0;
};

}  // namespace

std::optional<Move> intersect_move(const Space& space, const State& state) {
  const State& goal = space.goal;
  if (state.partial != goal.partial || state.to_reduction != goal.to_reduction || state == goal) return std::nullopt;
  const Placement before = placement(space, state);
  const Placement after = placement(space, goal);
  // The pieces are in memory together with the buffer into which they are written.
  Move move{StepKind::kIntersect, -1, -1, {}, goal, 0, 0, space.bytes(state) + 2 * space.bytes(goal)};
  if (state.to_order == goal.to_order) {
    if (const auto count = count_pieces(before, after)) {
      if (count->permutes() > kMaxPermutes || count->permutes() == 0) return std::nullopt;
      move.bytes = space.bytes(goal) / count->pieces * count->permutes();
      move.collectives = static_cast<int>(count->permutes());
      return move;
    }
  }
  if (state.partial != 0 || part_estimate(before, after) > kMaxParts) return std::nullopt;
  const Exchange exchange = exchange_any(before, after);
  move.bytes = exchange.elements() * dtype_size(space.global.dtype());
  move.collectives = exchange.permutes();
  return move;
}

std::vector<Move> find_moves(const Space& space) {
  if (space.start == space.goal) return {};
  return Search(space).run();
}

}  // namespace tessera::reshard
