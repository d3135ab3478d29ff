// SPDX-License-Identifier: Apache-2.0
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "tessera/base/error.h"
#include "tessera/base/json.h"
#include "tessera/solver/problem.h"

namespace tessera::solver {
namespace {

namespace json = boost::json;

// Where a value is, for errors: `a.json: problem.nodes.costs[3]`.
struct At {
  std::string_view origin;
  std::string_view list;
  std::size_t index = 0;
  [[nodiscard]] std::string str() const { return fmt::format("{}: {}[{}]", origin, list, index); }
};

const json::value& member_of(const json::value& object, std::string_view key, std::string_view path,
                             std::string_view origin) {
  const json::value* found = find_member(object, key);
  require(found != nullptr, "{}: there is no {}", origin, path);
  return *found;
}

const json::array& list_of(const json::value& object, std::string_view key, std::string_view path,
                           std::string_view origin) {
  const json::value& found = member_of(object, key, path, origin);
  require(found.is_array(), "{}: {} must be a list, not {}", origin, path, [&] { return excerpt(found); });
  return found.get_array();
}

std::int64_t number(const json::value& value, const At& at) {
  require(value.is_int64(), "{}: expected an integer below 2^63, not {}", at, [&] { return excerpt(value); });
  return value.get_int64();
}

std::vector<std::int64_t> numbers(const json::array& lists, const At& at) {
  const json::value& value = lists[at.index];
  require(value.is_array(), "{}: expected a list of integers, not {}", at, [&] { return excerpt(value); });
  const json::array& list = value.get_array();
  std::vector<std::int64_t> out(list.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = number(list[i], at);
  return out;
}

std::pair<std::int64_t, std::int64_t> pair_of(const json::array& lists, const At& at) {
  const std::vector<std::int64_t> found = numbers(lists, at);
  require(found.size() == 2, "{}: expected 2 integers, not {}", at, found.size());
  return {found[0], found[1]};
}

void read_nodes(const json::value& nodes, std::string_view origin, Problem& out) {
  const json::array& intervals = list_of(nodes, "intervals", "problem.nodes.intervals", origin);
  const json::array& costs = list_of(nodes, "costs", "problem.nodes.costs", origin);
  const json::array& usages = list_of(nodes, "usages", "problem.nodes.usages", origin);
  require(intervals.size() == costs.size() && usages.size() == costs.size(),
          "{}: problem.nodes has {} intervals, {} costs and {} usages", origin, intervals.size(), costs.size(),
          usages.size());
  out.nodes.resize(costs.size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    Node& node = out.nodes[i];
    std::tie(node.begin, node.end) = pair_of(intervals, {origin, "problem.nodes.intervals", i});
    node.costs = numbers(costs, {origin, "problem.nodes.costs", i});
    node.usages = numbers(usages, {origin, "problem.nodes.usages", i});
    require(node.usages.size() == node.costs.size(), "{}: node {} has {} costs and {} usages", origin, i,
            node.costs.size(), node.usages.size());
  }
}

void read_edges(const json::value& edges, std::string_view origin, Problem& out) {
  const json::array& ends = list_of(edges, "nodes", "problem.edges.nodes", origin);
  const json::array& costs = list_of(edges, "costs", "problem.edges.costs", origin);
  require(ends.size() == costs.size(), "{}: problem.edges has {} pairs of nodes and {} costs", origin, ends.size(),
          costs.size());
  out.edges.resize(costs.size());
  const auto count = static_cast<std::int64_t>(out.nodes.size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const At at{origin, "problem.edges.nodes", i};
    const auto [first, second] = pair_of(ends, at);
    for (const std::int64_t end : {first, second})
      require(end >= 0 && end < count, "{}: there is no node {}; there are {}", at, end, count);
    out.edges[i].first = static_cast<std::int32_t>(first);
    out.edges[i].second = static_cast<std::int32_t>(second);
    out.edges[i].costs = numbers(costs, {origin, "problem.edges.costs", i});
  }
}

}  // namespace

Problem parse_problem(std::string_view text, std::string_view origin) {
  const json::value document = parse_json(text, origin);
  const json::value& problem = member_of(document, "problem", "problem", origin);
  Problem out;
  const json::value* name = find_member(problem, "name");
  require(name == nullptr || name->is_string(), "{}: problem.name must be a text", origin);
  out.name = name != nullptr ? std::string(name->get_string()) : std::string(origin);
  read_nodes(member_of(problem, "nodes", "problem.nodes", origin), origin, out);
  read_edges(member_of(problem, "edges", "problem.edges", origin), origin, out);
  if (const json::value* limit = find_member(problem, "usage_limit"); limit != nullptr && !limit->is_null()) {
    require(limit->is_int64(), "{}: problem.usage_limit must be an integer, not {}", origin,
            [&] { return excerpt(*limit); });
    out.memory_limit = limit->get_int64();
  }
  try {
    check(out);
  } catch (Error& error) {
    throw error.prefix(fmt::format("{}: ", origin));
  }
  return out;
}

std::string problem_text(const Problem& problem) {
  const auto list = [](const std::vector<std::int64_t>& numbers) {
    return json::array(numbers.begin(), numbers.end());
  };
  json::array intervals;
  json::array costs;
  json::array usages;
  for (const Node& node : problem.nodes) {
    intervals.push_back(list({node.begin, node.end}));
    costs.push_back(list(node.costs));
    usages.push_back(list(node.usages.empty() ? std::vector<std::int64_t>(node.costs.size(), 0) : node.usages));
  }
  json::array ends;
  json::array pairs;
  for (const Edge& edge : problem.edges) {
    ends.push_back(list({edge.first, edge.second}));
    pairs.push_back(list(edge.costs));
  }
  json::object out{{"name", problem.name},
                   {"nodes", json::object{{"intervals", intervals}, {"costs", costs}, {"usages", usages}}},
                   {"edges", json::object{{"nodes", ends}, {"costs", pairs}}}};
  if (problem.memory_limit) out["usage_limit"] = *problem.memory_limit;
  return json::serialize(json::object{{"problem", out}}) + "\n";
}

}  // namespace tessera::solver
