// SPDX-License-Identifier: Apache-2.0
#include "graph/timeline.h"

#include <algorithm>
#include <tuple>

#include "tessera/base/error.h"

namespace tessera::solver {
namespace {

struct Event {
  std::int64_t time = 0;
  bool is_begin = false;  // ends come first
  std::size_t node = 0;
};

std::vector<Event> events_of(const Problem& problem, const std::vector<std::int64_t>& most) {
  std::vector<Event> out;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const Node& node = problem.nodes[i];
    if (node.end <= node.begin || most[i] == 0) continue;
    out.push_back({node.begin, true, i});
    out.push_back({node.end, false, i});
  }
  std::sort(out.begin(), out.end(), [](const Event& x, const Event& y) {
    return std::tie(x.time, x.is_begin, x.node) < std::tie(y.time, y.is_begin, y.node);
  });
  return out;
}

}  // namespace

int Timeline::first(std::int64_t from) const {
  return static_cast<int>(std::lower_bound(time.begin(), time.end(), from) - time.begin());
}

Timeline find_timeline(const Problem& problem, const std::vector<std::int64_t>& least,
                       const std::vector<std::int64_t>& most) {
  Timeline out;
  if (!problem.memory_limit) return out;
  const auto limit = static_cast<double>(*problem.memory_limit);
  double low = 0;
  double high = 0;
  bool grew = false;
  std::int64_t begun = 0;
  for (const Event& event : events_of(problem, most)) {
    const auto less = static_cast<double>(least[event.node]);
    const auto more = static_cast<double>(most[event.node]);
    if (!event.is_begin && grew && high > limit) {
      require(low <= limit,
              "{}: the least usages of the nodes alive at time {} add up to {:.0f} bytes, above the limit of {} bytes",
              problem.name, begun, low, *problem.memory_limit);
      out.time.push_back(begun);
      out.room.push_back(limit - low);
    }
    grew = event.is_begin;
    if (event.is_begin) begun = event.time;
    low += event.is_begin ? less : -less;
    high += event.is_begin ? more : -more;
  }
  return out;
}

}  // namespace tessera::solver
