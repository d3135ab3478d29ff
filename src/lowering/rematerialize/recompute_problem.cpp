// SPDX-License-Identifier: Apache-2.0
#include "rematerialize/recompute_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/base/text.h"

namespace tessera {
namespace {

using solver::kForbidden;

constexpr int kNoStep = std::numeric_limits<int>::max();
constexpr double kDeep = 1.5;  // by this factor, what the forward pass needs rises on both sides of a boundary

std::int64_t picoseconds(double seconds) {
  const double most = static_cast<double>(kForbidden) / 1e3;  // so that sums of many stay below 2^63
  return static_cast<std::int64_t>(std::llround(std::min(seconds * 1e12, most)));
}

// The steps of a span that may need a value that is absent there.
struct Need {
  int first = kNoStep;
  int last = -1;
  bool can_recompute = false;
  [[nodiscard]] bool exists() const { return last >= 0; }
};

class Maker {
 public:
  Maker(const Schedule& schedule, const std::vector<LiveValue>& values, int stride, bool offload)
      : schedule_(schedule),
        values_(values),
        offload_(offload),
        gaps_(values.size()),
        tails_(values.size()),
        users_(values.size()),
        is_kept_(values.size(), false),
        used_(schedule.steps.size() + 1, 0) {
    for (const Buffer& buffer : schedule_.buffers)
      if (buffer.place == Place::kArena) use(buffer.first, buffer.last + 1, buffer.bytes);
    find_peaks();
    for (int v = 0; v < isize(values); ++v)
      for (const int input : at(values, v).inputs) at(users_, input).push_back(v);
    keep_boundaries(stride);
    for (int v = isize(values) - 1; v >= 0; --v) find_needs(v);
  }

  RecomputeProblem run() {
    out_.problem.name = "recomputation";
    out_.values.resize(values_.size());
    for (int v = 0; v < isize(values_); ++v) {
      add_gap(v);
      if (at(tails_, v).exists()) add_tail(v);
    }
    for (int v = 0; v < isize(values_); ++v) {
      add_edges(v, at(out_.values, v).gap);
      add_edges(v, at(out_.values, v).tail);
    }
    add_used();
    return std::move(out_);
  }

 private:
  // The first peak after the value is made.
  [[nodiscard]] int peak_of(const LiveValue& value) const {
    const auto found = std::lower_bound(peaks_.begin(), peaks_.end(), value.made);
    return found == peaks_.end() ? isize(used_) : *found;
  }
  [[nodiscard]] bool spans_peak(const LiveValue& value) const {
    const auto found = std::upper_bound(peaks_.begin(), peaks_.end(), value.gap_begin);
    return found != peaks_.end() && *found < value.gap_end;
  }
  // The last step before the peak that reads the value.
  [[nodiscard]] int last_early_read(const LiveValue& value) const {
    return std::min(peak_of(value), spans_peak(value) ? value.gap_begin : value.last_read);
  }

  // A program of several phases, such as micro-batches, has a peak in each. Between two peaks, less memory is used.
  void find_peaks() {
    constexpr double kLow = 0.7;
    const auto most = static_cast<double>(*std::max_element(used_.begin(), used_.end()));
    int highest = 0;
    int lowest = 0;
    for (int t = 0; t < isize(used_); ++t) {
      const auto bytes = static_cast<double>(at(used_, t));
      if (bytes > static_cast<double>(at(used_, highest))) highest = lowest = t;
      if (at(used_, t) < at(used_, lowest)) lowest = t;
      if (static_cast<double>(at(used_, highest)) < kLow * most ||
          static_cast<double>(at(used_, lowest)) > kLow * static_cast<double>(at(used_, highest)))
        continue;
      peaks_.push_back(highest);
      highest = lowest = t;
    }
    if (static_cast<double>(at(used_, highest)) >= kLow * most) peaks_.push_back(highest);
  }

  // Keeps the values that the forward pass needs at every `stride`-th boundary. A boundary is a step at which it needs
  // few bytes: between two layers, only their common value. If there is none, all layers look alike, and boundaries at equal
  // distances keep about as much as they save.
  void keep_boundaries(int stride) {
    std::vector<std::int64_t> needed(used_.size() + 1, 0);
    for (const LiveValue& value : values_) {
      at(needed, value.made) += value.bytes;
      at(needed, std::max(value.made, last_early_read(value))) -= value.bytes;
    }
    for (std::size_t t = 1; t < needed.size(); ++t) needed[t] += needed[t - 1];
    int begin = 0;
    for (const int peak : peaks_) {
      std::vector<int> boundaries = boundaries_between(begin, peak, needed);
      if (boundaries.empty()) {
        const int distance = std::max(2, static_cast<int>(std::sqrt(2.0 * (peak - begin))));
        for (int t = begin + distance; t < peak; t += distance) boundaries.push_back(t);
      }
      for (int i = stride - 1; i < isize(boundaries); i += stride) keep_needed_at(at(boundaries, i));
      begin = peak;
    }
  }

  static std::vector<int> boundaries_between(int begin, int end, const std::vector<std::int64_t>& needed) {
    std::vector<int> out;
    int lowest = begin;
    double highest = 0;  // since the last boundary
    for (int t = begin; t < end; ++t) {
      const auto bytes = static_cast<double>(at(needed, t));
      const auto least = static_cast<double>(at(needed, lowest));
      if (bytes <= least) lowest = t;
      if (bytes >= kDeep * least && highest >= kDeep * least) {
        out.push_back(lowest);
        highest = bytes;
        lowest = t;
      } else if (bytes > highest) {
        highest = bytes;
        lowest = t;
      }
    }
    return out;
  }
  void keep_needed_at(int step) {
    for (std::size_t v = 0; v < values_.size(); ++v)
      if (values_[v].made <= step && step < last_early_read(values_[v])) is_kept_[v] = true;
  }

  // Values are made in order, so the users of a value come after it and are known here.
  void find_needs(int v) {
    const LiveValue& value = at(values_, v);
    Need& gap = at(gaps_, v);
    Need& tail = at(tails_, v);
    if (spans_peak(value)) gap.first = gap.last = value.gap_end;
    for (const int user : at(users_, v))
      for (const Need* theirs : {&at(gaps_, user), &at(tails_, user)}) {
        if (!theirs->can_recompute) continue;
        if (theirs->first > value.last_read) {
          tail.first = std::min(tail.first, theirs->first);
          tail.last = std::max(tail.last, theirs->last);
        } else if (gap.exists() && theirs->first > value.gap_begin && theirs->first < value.gap_end) {
          gap.first = std::min(gap.first, theirs->first);
        }
      }
    const bool can_recompute = value.is_recomputable && !at(is_kept_, v);
    gap.can_recompute = can_recompute && gap.exists();
    tail.can_recompute = can_recompute && tail.exists() && value.last_read < peak_of(value);
  }

  void use(int begin, int end, std::int64_t bytes) {
    for (int t = std::max(0, begin); t < std::min(end, isize(used_)); ++t) at(used_, t) += bytes;
  }

  int add_node(int begin, int end, std::vector<std::int64_t> costs, std::vector<std::int64_t> usages) {
    out_.problem.nodes.push_back({begin, end, std::move(costs), std::move(usages)});
    return isize(out_.problem.nodes) - 1;
  }

  // Adds the strategies that make the value again, which use no memory in the span.
  void add_strategies(int v, bool can_recompute, SpanChoices& span, std::vector<std::int64_t>& costs) const {
    const LiveValue& value = at(values_, v);
    if (can_recompute) {
      span.strategies.push_back(SpanStrategy::kComputedAgain);
      costs.push_back(picoseconds(value.seconds));
    }
    if (offload_ && value.is_offloadable) {
      span.strategies.push_back(SpanStrategy::kInFile);
      costs.push_back(picoseconds(value.file_seconds));
    }
  }

  // The memory from the first need on is used in any case.
  void add_gap(int v) {
    const LiveValue& value = at(values_, v);
    const Need& need = at(gaps_, v);
    SpanChoices span{.strategies = {SpanStrategy::kKept}, .first = need.first};
    std::vector<std::int64_t> costs = {0};
    if (need.exists()) add_strategies(v, need.can_recompute, span, costs);
    if (span.strategies.size() == 1) return;
    use(value.gap_begin + 1, need.first, -value.bytes);
    std::vector<std::int64_t> usages(costs.size(), 0);
    usages[0] = value.bytes;
    span.node = add_node(value.gap_begin + 1, need.first, std::move(costs), std::move(usages));
    at(out_.values, v).gap = std::move(span);
  }

  // While values that are computed again may need it, it is in memory unless it is dropped.
  void add_tail(int v) {
    const LiveValue& value = at(values_, v);
    const Need& need = at(tails_, v);
    SpanChoices span{.strategies = {SpanStrategy::kDropped, SpanStrategy::kKept}, .first = need.first};
    std::vector<std::int64_t> costs = {0, 0};
    add_strategies(v, need.can_recompute, span, costs);
    std::vector<std::int64_t> usages(costs.size(), 0);
    usages[1] = value.bytes;
    std::vector<std::int64_t> pairs(2 * costs.size(), 0);
    for (std::size_t choice = 1; choice < costs.size(); ++choice) pairs[2 * choice] = kForbidden;
    span.node = add_node(value.last_read + 1, need.first, std::move(costs), std::move(usages));
    const int during = add_node(need.first, need.last + 1, {0, 0}, {0, value.bytes});
    out_.problem.edges.push_back({span.node, during, std::move(pairs)});
    at(out_.values, v).tail = std::move(span);
  }

  // A value that is computed again needs its inputs then: none may be dropped.
  void add_edges(int v, const SpanChoices& span) {
    const auto again = std::find(span.strategies.begin(), span.strategies.end(), SpanStrategy::kComputedAgain);
    if (again == span.strategies.end()) return;
    for (const int input : at(values_, v).inputs) {
      const SpanChoices& other = at(out_.values, input).tail;
      if (other.node < 0 || span.first <= at(values_, input).last_read) continue;
      const std::size_t columns = other.strategies.size();
      std::vector<std::int64_t> costs(span.strategies.size() * columns, 0);
      costs[static_cast<std::size_t>(again - span.strategies.begin()) * columns] = kForbidden;
      out_.problem.edges.push_back({span.node, other.node, std::move(costs)});
    }
  }

  // The memory that no choice changes: one node for each run of steps with equal use.
  void add_used() {
    for (int begin = 0, t = 1; t <= isize(used_); ++t) {
      if (t < isize(used_) && at(used_, t) == at(used_, begin)) continue;
      if (at(used_, begin) > 0) add_node(begin, t, {0}, {at(used_, begin)});
      begin = t;
    }
  }

  const Schedule& schedule_;
  const std::vector<LiveValue>& values_;
  bool offload_;
  std::vector<Need> gaps_;
  std::vector<Need> tails_;
  std::vector<std::vector<int>> users_;
  std::vector<bool> is_kept_;
  std::vector<std::int64_t> used_;  // per step: bytes
  std::vector<int> peaks_;          // the steps that use most, in order
  RecomputeProblem out_;
};

}  // namespace

RecomputeProblem recompute_problem(const Schedule& schedule, const std::vector<LiveValue>& values, int stride,
                                   bool offload) {
  return Maker(schedule, values, stride, offload).run();
}

solver::Budget recompute_budget(const RecomputeProblem& graph) {
  solver::Budget out;
  out.threads = 2;
  out.work = 10'000'000 + std::int64_t{25'000} * isize(graph.problem.nodes);
  return out;
}

Recomputed recomputed_values(const RecomputeProblem& graph, const std::vector<LiveValue>& values,
                             const std::vector<std::int32_t>& choices) {
  Recomputed out;
  const auto strategy_of = [&](const LiveValue& value, const SpanChoices& span) {
    const SpanStrategy strategy = span.node < 0 ? SpanStrategy::kKept : at(span.strategies, at(choices, span.node));
    if (strategy == SpanStrategy::kComputedAgain) out.seconds += value.seconds;
    if (strategy == SpanStrategy::kInFile) out.seconds += value.file_seconds;
    return strategy;
  };
  for (int v = 0; v < isize(values); ++v) {
    out.in_gap.push_back(strategy_of(at(values, v), at(graph.values, v).gap));
    out.in_tail.push_back(strategy_of(at(values, v), at(graph.values, v).tail));
  }
  return out;
}

}  // namespace tessera
