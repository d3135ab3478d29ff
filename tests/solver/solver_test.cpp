// SPDX-License-Identifier: Apache-2.0
// The solver compared with all assignments of small random graphs, and on graphs whose optimum is known.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "support/error_of.h"
#include "tessera/solver/solve.h"

namespace tessera::solver {
namespace {

using testing::error_of;

using Random = std::mt19937_64;

std::int64_t draw(Random& random, std::int64_t from, std::int64_t to) {
  return std::uniform_int_distribution<std::int64_t>(from, to)(random);
}

std::vector<std::int64_t> draw_costs(Random& random, std::size_t count) {
  std::vector<std::int64_t> out(count);
  for (auto& cost : out) cost = draw(random, 0, 9) == 0 ? kForbidden : draw(random, 0, 20);
  return out;
}

// Nodes of 1 to 4 choices that are alive for random times. Edges may join a node to itself, or a pair twice.
Problem random_problem(Random& random, int nodes, int edges) {
  Problem out;
  out.name = "random";
  for (int i = 0; i < nodes; ++i) {
    Node node;
    node.begin = draw(random, 0, nodes);
    node.end = node.begin + draw(random, 0, 4);  // some are never alive
    node.costs = draw_costs(random, static_cast<std::size_t>(draw(random, 1, 4)));
    if (draw(random, 0, 4) != 0)
      for (std::size_t k = 0; k < node.costs.size(); ++k) node.usages.push_back(draw(random, 0, 9));
    out.nodes.push_back(std::move(node));
  }
  for (int i = 0; i < edges; ++i) {
    Edge edge;
    edge.first = static_cast<std::int32_t>(draw(random, 0, nodes - 1));
    edge.second = static_cast<std::int32_t>(draw(random, 0, nodes - 1));
    const auto choices = [&](std::int32_t node) { return out.nodes[static_cast<std::size_t>(node)].costs.size(); };
    edge.costs = draw_costs(random, choices(edge.first) * choices(edge.second));
    out.edges.push_back(std::move(edge));
  }
  return out;
}

struct Best {
  std::optional<std::int64_t> cost;  // nullopt: no assignment is feasible
  std::int64_t least_peak = std::numeric_limits<std::int64_t>::max();
};

// The best of all assignments, by evaluate().
Best best_of_all(const Problem& problem) {
  Best out;
  std::vector<std::int32_t> choices(problem.nodes.size(), 0);
  while (true) {
    const Evaluation found = evaluate(problem, choices);
    if (found.forbidden == 0) out.least_peak = std::min(out.least_peak, found.peak);
    if (found.is_feasible(problem) && (!out.cost || found.cost < *out.cost)) out.cost = found.cost;
    std::size_t i = 0;
    while (i < choices.size() && ++choices[i] == static_cast<std::int32_t>(problem.nodes[i].costs.size()))
      choices[i++] = 0;
    if (i == choices.size()) return out;
  }
}

void expect_consistent(const Problem& problem, const Solution& solution) {
  const Evaluation checked = evaluate(problem, solution.choices);
  EXPECT_TRUE(checked.is_feasible(problem));
  EXPECT_EQ(checked.cost, solution.cost);
  EXPECT_EQ(checked.peak, solution.peak);
  EXPECT_LE(solution.lower_bound, solution.cost);
}

// Solves the problem within its memory limit and compares with all assignments.
void expect_best(const Problem& problem) {
  const Best best = best_of_all(problem);
  if (!best.cost) {
    EXPECT_NE(error_of([&] { solve(problem); }), "no error");
    return;
  }
  const Solution solution = solve(problem);
  expect_consistent(problem, solution);
  EXPECT_EQ(solution.cost, *best.cost);
  EXPECT_TRUE(solution.is_optimal());
  EXPECT_EQ(solution.gap(), 0);
}

TEST(Solver, FindsTheBestAssignmentOfSmallGraphs) {
  Random random(1);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    const int nodes = static_cast<int>(draw(random, 1, 7));
    expect_best(random_problem(random, nodes, static_cast<int>(draw(random, 0, 2 * nodes))));
  }
}

TEST(Solver, KeepsTheMemoryLimitOrSaysThatItCannot) {
  Random random(2);
  int feasible = 0;
  int infeasible = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    const int nodes = static_cast<int>(draw(random, 2, 7));
    Problem problem = random_problem(random, nodes, static_cast<int>(draw(random, 0, 2 * nodes)));
    const Best best = best_of_all(problem);
    if (!best.cost) continue;
    problem.memory_limit = std::max<std::int64_t>(0, best.least_peak + draw(random, -1, 3));
    expect_best(problem);
    ++(*problem.memory_limit >= best.least_peak ? feasible : infeasible);
  }
  EXPECT_GT(feasible, 50);
  EXPECT_GT(infeasible, 20);
}

// 3 nodes that are alive together, each with a small expensive and a large free choice.
Problem three_nodes(std::int64_t limit) {
  Problem out;
  out.name = "three";
  for (int i = 0; i < 3; ++i) out.nodes.push_back({0, 2, {5 + i, 0}, {1, 4}});
  out.memory_limit = limit;
  return out;
}

TEST(Solver, PaysForTheLeastExpensiveChoicesUnderALimit) {
  EXPECT_EQ(solve(three_nodes(12)).cost, 0);
  EXPECT_EQ(solve(three_nodes(9)).cost, 5);
  EXPECT_EQ(solve(three_nodes(6)).cost, 11);
  EXPECT_EQ(solve(three_nodes(3)).cost, 18);
}

TEST(Solver, NamesTheTimeAndTheBytesIfTheLeastUsagesExceedTheLimit) {
  EXPECT_EQ(error_of([] { solve(three_nodes(2)); }),
            "three: the least usages of the nodes alive at time 0 add up to 3 bytes, above the limit of 2 bytes");
}

// Two nodes with {small, large} choices whose small ones must not be combined. 5 bytes are the least.
Problem exclusive_pair(std::int64_t limit) {
  Problem out;
  out.name = "pair";
  out.nodes = {{0, 1, {0, 0}, {1, 4}}, {0, 1, {0, 0}, {1, 4}}};
  out.edges = {{0, 1, {kForbidden, 0, 0, 0}}};
  out.memory_limit = limit;
  return out;
}

TEST(Solver, SolveIfFeasibleReturnsNulloptIfNoAssignmentKeepsTheLimit) {
  const auto found = solve_if_feasible(exclusive_pair(5));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->peak, 5);
  EXPECT_FALSE(solve_if_feasible(exclusive_pair(4)).has_value());
  EXPECT_EQ(error_of([] { solve(exclusive_pair(4)); }),
            "pair: no assignment that is allowed keeps the memory limit of 4 bytes");
}

TEST(Solver, SolveWithinRaisesALimitThatIsTooLow) {
  const auto found = solve_within(exclusive_pair(0), 4, {}, 8);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->peak, 5);
  EXPECT_FALSE(solve_within(exclusive_pair(0), 4, {}, 4).has_value());
  EXPECT_EQ(solve_within(exclusive_pair(0), 7, {}, 7)->peak, 5);
  // A forbidden choice does not count as the least usage.
  const Problem forbidden{"forbidden", {{0, 1, {kForbidden, 0}, {0, 10}}}, {}, {}};
  EXPECT_EQ(least_peak(forbidden), 10);
  EXPECT_EQ(solve_within(forbidden, 5, {}, 5)->peak, 10);
}

TEST(Solver, RefusesAGraphWithoutAnAllowedAssignment) {
  Problem problem = exclusive_pair(100);
  problem.edges.front().costs.assign(4, kForbidden);
  EXPECT_NE(error_of([&] { solve(problem); }).find("forbidden"), std::string::npos);
}

// A grid of `side` x `side` nodes: too wide for exact elimination, so that the search has to solve it.
Problem grid(Random& random, int side) {
  Problem out;
  out.name = "grid";
  for (int i = 0; i < side * side; ++i) {
    Node node{i, i + 2 * side, {}, {}};
    for (int k = 0; k < 5; ++k) {
      node.costs.push_back(draw(random, 0, 100));
      node.usages.push_back(10 + draw(random, 0, 90));
    }
    out.nodes.push_back(std::move(node));
  }
  for (int i = 0; i < side * side; ++i)
    for (const int other : {(i + 1) % side != 0 ? i + 1 : -1, i + side < side * side ? i + side : -1}) {
      if (other < 0) continue;
      Edge edge{i, other, {}};
      for (int k = 0; k < 25; ++k) edge.costs.push_back(draw(random, 0, 100));
      out.edges.push_back(std::move(edge));
    }
  return out;
}

// A small choice beside a small one is forbidden, so that half of the nodes need the large one: 2.5 bytes for each node.
TEST(Solver, ProvesThatNoAssignmentOfALargeGraphKeepsALimit) {
  Random random(9);
  constexpr int kSide = 12;
  Problem problem = grid(random, kSide);
  for (Node& node : problem.nodes) {
    node = {0, 1, {draw(random, 0, 100), draw(random, 0, 100)}, {1, 4}};
  }
  for (Edge& edge : problem.edges) edge.costs = {kForbidden, draw(random, 0, 100), draw(random, 0, 100), 0};
  constexpr std::int64_t kNeeded = kSide * kSide * 5 / 2;
  for (const std::int64_t limit : {kNeeded * 9 / 10, kNeeded * 2 / 3}) {
    problem.memory_limit = limit;
    EXPECT_EQ(error_of([&] {
                solve(problem, {50'000'000, std::nullopt, 1});
              }),
              fmt::format("grid: no assignment that is allowed keeps the memory limit of {} bytes", limit));
  }
  problem.memory_limit = kNeeded * 11 / 10;
  expect_consistent(problem, solve(problem, {50'000'000, std::nullopt, 1}));
}

// The cost if each node takes what is best beside the choices of the nodes before it.
std::int64_t greedy_cost(const Problem& problem) {
  std::vector<std::int32_t> choices(problem.nodes.size(), 0);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    std::vector<std::int64_t> costs = problem.nodes[i].costs;
    for (const Edge& edge : problem.edges) {
      if (static_cast<std::size_t>(edge.second) != i) continue;
      const auto row = static_cast<std::size_t>(choices[static_cast<std::size_t>(edge.first)]);
      for (std::size_t k = 0; k < costs.size(); ++k) costs[k] += edge.costs[row * costs.size() + k];
    }
    choices[i] = static_cast<std::int32_t>(std::min_element(costs.begin(), costs.end()) - costs.begin());
  }
  return evaluate(problem, choices).cost;
}

TEST(Solver, LargeGraphsHaveABoundAndTheSameResultInEachRun) {
  Random random(3);
  Problem problem = grid(random, 24);
  Budget budget;
  budget.work = 20'000'000;
  const Solution free = solve(problem, budget);
  expect_consistent(problem, free);
  EXPECT_LT(free.cost, greedy_cost(problem));
  EXPECT_LT(free.gap(), 0.1);
  problem.memory_limit = free.peak * 3 / 4;
  const Solution limited = solve(problem, budget);
  expect_consistent(problem, limited);
  EXPECT_GE(limited.cost, free.lower_bound);
  EXPECT_EQ(solve(problem, budget).choices, limited.choices);
  budget.threads = 2;
  const Solution of_two = solve(problem, budget);
  expect_consistent(problem, of_two);
  EXPECT_EQ(solve(problem, budget).choices, of_two.choices);
}

TEST(Solver, StopsWhenNoAssignmentCostsLessThanTheCutoff) {
  Random random(3);
  Problem problem = grid(random, 24);
  Budget budget;
  budget.work = 20'000'000;
  problem.memory_limit = solve(problem, budget).peak * 3 / 4;
  const Solution limited = solve(problem, budget);
  budget.cutoff = 2 * limited.cost;
  EXPECT_EQ(solve(problem, budget).choices, limited.choices);
  budget.cutoff = limited.lower_bound / 2;
  EXPECT_FALSE(solve_if_feasible(problem, budget).has_value());
  EXPECT_FALSE(solve_within(problem, *problem.memory_limit, budget, 2 * *problem.memory_limit).has_value());
  EXPECT_EQ(error_of([&] { solve(problem, budget); }),
            fmt::format("{}: no assignment that keeps the memory limit of {} bytes costs less than {}", problem.name,
                        *problem.memory_limit, *budget.cutoff));
}

// No pair is forbidden, so that the choices of least usage are feasible whatever the search does.
TEST(Solver, FindsAnAssignmentIfTheLeastUsagesFit) {
  for (const std::uint64_t seed : {6, 7, 8}) {
    Random random(seed);
    Problem problem = grid(random, 16);
    std::vector<std::int32_t> least;
    for (const Node& node : problem.nodes)
      least.push_back(
          static_cast<std::int32_t>(std::min_element(node.usages.begin(), node.usages.end()) - node.usages.begin()));
    const Evaluation smallest = evaluate(problem, least);
    EXPECT_EQ(least_peak(problem), smallest.peak);
    for (const double above : {1.0, 1.1, 1.5}) {
      problem.memory_limit = static_cast<std::int64_t>(above * static_cast<double>(smallest.peak));
      const Solution found = solve(problem, {5'000'000, std::nullopt, 1});
      expect_consistent(problem, found);
      EXPECT_LE(found.cost, smallest.cost);
    }
  }
}

TEST(Solver, WithoutWorkItReturnsAFirstSolution) {
  Random random(4);
  const Problem problem = grid(random, 12);
  expect_consistent(problem, solve(problem, {0, std::nullopt, 1}));
  EXPECT_EQ(error_of([&] {
              solve(problem, {-1, std::nullopt, 1});
            }),
            "a budget needs work of at least 0 and at least 1 thread, not -1 and 1");
}

TEST(Solver, AWallTimeEndsTheSearch) {
  Random random(5);
  const Problem problem = grid(random, 16);
  expect_consistent(problem, solve(problem, {std::numeric_limits<std::int64_t>::max() / 2, 0.2, 1}));
}

TEST(Solver, AnEmptyGraphCostsNothing) {
  EXPECT_EQ(solve(Problem{"empty", {}, {}, {}}).cost, 0);
  EXPECT_TRUE(solve(Problem{"empty", {}, {}, 0}).choices.empty());
}

}  // namespace
}  // namespace tessera::solver
