// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <queue>

#include "groups.h"

namespace tessera::schedule {
namespace {

class StepGraph {
 public:
  StepGraph(const Flow& flow, const std::vector<std::vector<Id>>& steps) : flow_(flow) {
    step_of_.assign(flow.kinds.size(), -1);
    for (int t = 0; t < isize(steps); ++t)
      for (const Id id : at(steps, t)) at(step_of_, id) = t;
    after_.resize(steps.size());
    for (int t = 0; t < isize(steps); ++t)
      for (const Id id : at(steps, t)) {
        for (const int slot : at(flow.reads, id)) add_edge(at(step_of_, at(flow.slots, slot).id), t);
        for (const Id before : at(flow.waits, id)) add_edge(at(step_of_, before), t);
      }
  }

  /// Requires every reader to run before the writer, unless it depends on the writer. Returns whether a step has to
  /// move.
  bool add(const Overwrite& overwrite) {
    const int writer = at(step_of_, at(flow_.slots, overwrite.written).id);
    bool moves = false;
    std::vector<int> readers;
    for (const Id id : at(flow_.consumers, overwrite.read)) {
      const int reader = at(step_of_, id);
      if (reader == writer) continue;
      // If a reader must stay after the writer, moving the others gains nothing. Steps in their present order have no
      // cycles, unless one has moved already.
      if ((reader > writer || has_moved_) && reaches(writer, reader)) return false;
      moves = moves || reader > writer;
      readers.push_back(reader);
    }
    for (const int reader : readers) add_edge(reader, writer);
    has_moved_ = has_moved_ || moves;
    return moves;
  }

  /// A topological order that deviates from the present one as little as possible.
  [[nodiscard]] std::vector<int> sorted() const {
    std::vector<int> waiting(after_.size(), 0);
    for (const auto& next : after_)
      for (const int t : next) ++at(waiting, t);
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int t = 0; t < isize(waiting); ++t)
      if (at(waiting, t) == 0) ready.push(t);
    std::vector<int> out;
    while (!ready.empty()) {
      const int t = ready.top();
      ready.pop();
      out.push_back(t);
      for (const int next : at(after_, t))
        if (--at(waiting, next) == 0) ready.push(next);
    }
    ensure(out.size() == after_.size(), "the steps of a schedule wait for one another");
    return out;
  }

 private:
  void add_edge(int before, int after) {
    if (before >= 0 && before != after) at(after_, before).push_back(after);
  }
  [[nodiscard]] bool reaches(int from, int to) const {
    std::vector<bool> seen(after_.size(), false);
    std::vector<int> stack = {from};
    while (!stack.empty()) {
      const int t = stack.back();
      stack.pop_back();
      if (t == to) return true;
      if (at(seen, t)) continue;
      seen[static_cast<std::size_t>(t)] = true;
      stack.insert(stack.end(), at(after_, t).begin(), at(after_, t).end());
    }
    return false;
  }

  const Flow& flow_;
  std::vector<int> step_of_;
  std::vector<std::vector<int>> after_;
  bool has_moved_ = false;
};

}  // namespace

std::vector<std::vector<Id>> readers_first(const Flow& flow, std::vector<std::vector<Id>> steps,
                                           const std::vector<Overwrite>& overwrites) {
  StepGraph graph(flow, steps);
  bool moves = false;
  for (const Overwrite& overwrite : overwrites) moves = graph.add(overwrite) || moves;
  if (!moves) return steps;
  std::vector<std::vector<Id>> out;
  for (const int t : graph.sorted()) out.push_back(std::move(at(steps, t)));
  return out;
}

}  // namespace tessera::schedule
