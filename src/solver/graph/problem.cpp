// SPDX-License-Identifier: Apache-2.0
#include "tessera/solver/problem.h"

#include <algorithm>
#include <limits>
#include <map>

#include "tessera/base/error.h"

namespace tessera::solver {
namespace {

__extension__ using Wide = __int128;  // sums of many 64-bit costs

bool has_negative(const std::vector<std::int64_t>& values) {
  return std::any_of(values.begin(), values.end(), [](std::int64_t value) { return value < 0; });
}

void check_node(const Problem& problem, std::size_t i) {
  const Node& node = problem.nodes[i];
  require(!node.costs.empty(), "{}: node {} has no choices", problem.name, i);
  require(!has_negative(node.costs), "{}: node {} has a cost below 0", problem.name, i);
  require(!has_negative(node.usages), "{}: node {} has a usage below 0", problem.name, i);
  require(node.usages.empty() || node.usages.size() == node.costs.size(), "{}: node {} has {} costs and {} usages",
          problem.name, i, node.costs.size(), node.usages.size());
}

void check_edge(const Problem& problem, std::size_t i) {
  const Edge& edge = problem.edges[i];
  const auto count = static_cast<std::int64_t>(problem.nodes.size());
  for (const std::int64_t end : {edge.first, edge.second})
    require(end >= 0 && end < count, "{}: edge {} connects node {}, but there are {} nodes", problem.name, i, end,
            count);
  const std::size_t rows = problem.nodes[static_cast<std::size_t>(edge.first)].costs.size();
  const std::size_t columns = problem.nodes[static_cast<std::size_t>(edge.second)].costs.size();
  require(edge.costs.size() == rows * columns, "{}: edge {} has {} costs for {} x {} choices", problem.name, i,
          edge.costs.size(), rows, columns);
  require(!has_negative(edge.costs), "{}: edge {} has a cost below 0", problem.name, i);
}

// Adds a cost to the sum of allowed costs, or counts it as forbidden.
void add_cost(std::int64_t cost, Wide& sum, Evaluation& out) {
  if (cost >= kForbidden)
    ++out.forbidden;
  else
    sum += cost;
}

void find_peak(const Problem& problem, const std::vector<std::int32_t>& choices, Evaluation& out) {
  std::map<std::int64_t, Wide> change;  // time: bytes that begin minus bytes that end
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const Node& node = problem.nodes[i];
    if (node.usages.empty() || node.end <= node.begin) continue;
    const std::int64_t bytes = node.usages[static_cast<std::size_t>(choices[i])];
    change[node.begin] += bytes;
    change[node.end] -= bytes;
  }
  Wide alive = 0;
  for (const auto& [time, bytes] : change) {
    alive += bytes;
    require(alive <= std::numeric_limits<std::int64_t>::max(), "{}: the usages at time {} exceed 2^63", problem.name,
            time);
    if (alive <= out.peak) continue;
    out.peak = static_cast<std::int64_t>(alive);
    out.peak_time = time;
  }
}

// The solver adds usages in doubles, which hold whole numbers below 2^53.
void check_sum_of_usages(const Problem& problem) {
  constexpr Wide kMost = Wide{1} << 53;
  Wide sum = 0;
  for (const Node& node : problem.nodes)
    if (!node.usages.empty()) sum += *std::max_element(node.usages.begin(), node.usages.end());
  require(sum < kMost, "{}: the largest usages of all nodes add up to 2^53 bytes or more", problem.name);
}

}  // namespace

void check(const Problem& problem) {
  require(problem.nodes.size() < std::numeric_limits<std::int32_t>::max(), "{}: too many nodes", problem.name);
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) check_node(problem, i);
  for (std::size_t i = 0; i < problem.edges.size(); ++i) check_edge(problem, i);
  check_sum_of_usages(problem);
  require(!problem.memory_limit || *problem.memory_limit >= 0, "{}: the memory limit is below 0", problem.name);
}

Evaluation evaluate(const Problem& problem, const std::vector<std::int32_t>& choices) {
  require(choices.size() == problem.nodes.size(), "{}: {} choices for {} nodes", problem.name, choices.size(),
          problem.nodes.size());
  Evaluation out;
  Wide sum = 0;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const auto count = static_cast<std::int32_t>(problem.nodes[i].costs.size());
    require(choices[i] >= 0 && choices[i] < count, "{}: node {} has no choice {}; it has {}", problem.name, i,
            choices[i], count);
    add_cost(problem.nodes[i].costs[static_cast<std::size_t>(choices[i])], sum, out);
  }
  for (const Edge& edge : problem.edges) {
    const auto row = static_cast<std::size_t>(choices[static_cast<std::size_t>(edge.first)]);
    const auto column = static_cast<std::size_t>(choices[static_cast<std::size_t>(edge.second)]);
    const std::size_t columns = problem.nodes[static_cast<std::size_t>(edge.second)].costs.size();
    add_cost(edge.costs[row * columns + column], sum, out);
  }
  require(sum <= std::numeric_limits<std::int64_t>::max(), "{}: the cost of the assignment exceeds 2^63", problem.name);
  out.cost = static_cast<std::int64_t>(sum);
  find_peak(problem, choices, out);
  return out;
}

std::int64_t least_peak(const Problem& problem) {
  std::vector<std::int32_t> least;
  for (const Node& node : problem.nodes) {
    std::int32_t best = 0;
    for (std::int32_t i = 1; i < static_cast<std::int32_t>(node.usages.size()); ++i) {
      const auto rank = [&](std::int32_t choice) {
        const auto place = static_cast<std::size_t>(choice);
        return std::pair(node.costs[place] >= kForbidden, node.usages[place]);
      };
      if (rank(i) < rank(best)) best = i;
    }
    least.push_back(best);
  }
  Evaluation out;
  find_peak(problem, least, out);
  return out.peak;
}

}  // namespace tessera::solver
