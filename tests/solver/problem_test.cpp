// SPDX-License-Identifier: Apache-2.0
// The definition of a decision graph, its checks, and its files.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "support/error_of.h"
#include "tessera/solver/solve.h"

namespace tessera::solver {
namespace {

using testing::error_of;

// Two nodes that are alive together at time 1, and two edges between them.
Problem pair() {
  Problem out;
  out.name = "pair";
  out.nodes = {{0, 2, {1, 2}, {10, 20}}, {1, 3, {4, 8, 16}, {1, 2, 3}}};
  out.edges = {{0, 1, {0, 0, 100, 0, kForbidden, 0}}, {1, 0, {0, 0, 0, 1000, 0, 0}}};
  return out;
}

TEST(DecisionGraph, AnAssignmentCostsTheSumOfItsNodesAndEdges) {
  const Evaluation found = evaluate(pair(), {0, 2});
  EXPECT_EQ(found.cost, 1 + 16 + 100);
  EXPECT_EQ(found.forbidden, 0);
  EXPECT_EQ(found.peak, 13);
  EXPECT_EQ(found.peak_time, 1);
}

TEST(DecisionGraph, ForbiddenPairsAreCountedAndNotAdded) {
  const Evaluation found = evaluate(pair(), {1, 1});
  EXPECT_EQ(found.cost, 2 + 8 + 1000);
  EXPECT_EQ(found.forbidden, 1);
  EXPECT_FALSE(found.is_feasible(pair()));
}

TEST(DecisionGraph, OnlyTheDiagonalOfAnEdgeFromANodeToItselfCounts) {
  Problem problem = pair();
  problem.edges = {{0, 0, {3, kForbidden, kForbidden, 5}}};
  EXPECT_EQ(evaluate(problem, {1, 0}).cost, 2 + 4 + 5);
  EXPECT_EQ(solve(problem).cost, 1 + 4 + 3);
}

TEST(DecisionGraph, MistakesNameTheNodeOrTheEdge) {
  const auto refused = [](auto&& change) {
    Problem problem = pair();
    change(problem);
    return error_of([&] { check(problem); });
  };
  EXPECT_EQ(refused([](Problem&) {}), "no error");
  EXPECT_EQ(refused([](Problem& p) { p.nodes[1].costs.clear(); }), "pair: node 1 has no choices");
  EXPECT_EQ(refused([](Problem& p) { p.nodes[0].costs[1] = -1; }), "pair: node 0 has a cost below 0");
  EXPECT_EQ(refused([](Problem& p) { p.nodes[0].usages[1] = -1; }), "pair: node 0 has a usage below 0");
  EXPECT_EQ(refused([](Problem& p) { p.nodes[0].usages.pop_back(); }), "pair: node 0 has 2 costs and 1 usages");
  EXPECT_EQ(refused([](Problem& p) { p.edges[1].second = 2; }), "pair: edge 1 connects node 2, but there are 2 nodes");
  EXPECT_EQ(refused([](Problem& p) { p.edges[0].costs.pop_back(); }), "pair: edge 0 has 5 costs for 2 x 3 choices");
  EXPECT_EQ(refused([](Problem& p) { p.memory_limit = -1; }), "pair: the memory limit is below 0");
  EXPECT_EQ(refused([](Problem& p) { p.nodes[0].usages[0] = std::int64_t{1} << 53; }),
            "pair: the largest usages of all nodes add up to 2^53 bytes or more");
}

TEST(DecisionGraph, AnAssignmentNeedsAChoiceOfEachNode) {
  EXPECT_EQ(error_of([] { evaluate(pair(), {0}); }), "pair: 1 choices for 2 nodes");
  EXPECT_EQ(error_of([] { evaluate(pair(), {0, 3}); }), "pair: node 1 has no choice 3; it has 3");
}

TEST(DecisionGraph, SumsAbove64BitsAreErrors) {
  constexpr std::int64_t kLarge = kForbidden - 1;
  Problem problem{"large", std::vector<Node>(100, Node{0, 1, {kLarge}, {}}), {}, {}};
  EXPECT_EQ(error_of([&] { evaluate(problem, std::vector<std::int32_t>(100, 0)); }),
            "large: the cost of the assignment exceeds 2^63");
}

TEST(DecisionGraph, ReadsAFileOfTheContest) {
  const std::string path = std::string(TESSERA_TESTS) + "/data/solver/chain.json";
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const Problem problem = parse_problem(text, path);
  EXPECT_EQ(problem.name, "chain");
  ASSERT_EQ(problem.nodes.size(), 3U);
  EXPECT_EQ(problem.nodes[1].costs, (std::vector<std::int64_t>{1, 5, 3}));
  EXPECT_EQ(problem.edges[1].first, 1);
  EXPECT_FALSE(problem.memory_limit.has_value());
  const Solution solution = solve(problem);
  EXPECT_EQ(solution.choices, (std::vector<std::int32_t>{1, 0, 1}));
  EXPECT_EQ(solution.cost, 1 + 1 + 0 + 0 + 1);
}

TEST(DecisionGraph, ReadsTheTextThatItWrites) {
  Problem problem = pair();
  problem.memory_limit = 12;
  problem.nodes[1].usages.clear();
  const Problem again = parse_problem(problem_text(problem), "text");
  EXPECT_EQ(problem_text(again), problem_text(problem));
  EXPECT_EQ(again.memory_limit, 12);
  EXPECT_EQ(evaluate(again, {1, 0}).cost, evaluate(problem, {1, 0}).cost);
}

TEST(DecisionGraph, ErrorsOfAFileNameThePlace) {
  const auto refused = [](const std::string& text) { return error_of([&] { parse_problem(text, "g.json"); }); };
  const auto nodes = [](const std::string& nodes) {
    return R"({"problem": {"nodes": )" + nodes + R"(, "edges": {"nodes": [[0, 1]], "costs": [[0]]}}})";
  };
  EXPECT_EQ(refused("{}"), "g.json: there is no problem");
  EXPECT_EQ(refused(R"({"problem": {}})"), "g.json: there is no problem.nodes");
  EXPECT_EQ(refused(nodes(R"({"intervals": 1})")), "g.json: problem.nodes.intervals must be a list, not 1");
  EXPECT_EQ(refused(nodes(R"({"intervals": [], "costs": [[0]], "usages": []})")),
            "g.json: problem.nodes has 0 intervals, 1 costs and 0 usages");
  EXPECT_EQ(refused(nodes(R"({"intervals": [[0, 1]], "costs": [[0.5]], "usages": [[0]]})")),
            "g.json: problem.nodes.costs[0]: expected an integer below 2^63, not 0.5");
  EXPECT_EQ(refused(nodes(R"({"intervals": [[0]], "costs": [[0]], "usages": [[0]]})")),
            "g.json: problem.nodes.intervals[0]: expected 2 integers, not 1");
  EXPECT_EQ(refused(nodes(R"({"intervals": [[0, 1]], "costs": [[0]], "usages": [[0, 1]]})")),
            "g.json: node 0 has 1 costs and 2 usages");
  EXPECT_EQ(refused(nodes(R"({"intervals": [[0, 1]], "costs": [[0]], "usages": [[0]]})")),
            "g.json: problem.edges.nodes[0]: there is no node 1; there are 1");
}

}  // namespace
}  // namespace tessera::solver
