// SPDX-License-Identifier: Apache-2.0
// A decision graph: each node selects one of its choices. Nodes and pairs of nodes have costs. The nodes that are alive
// at the same time share a memory limit. The choice of shardings can be written as a decision graph, but the solver
// does not depend on shardings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::solver {

/// A cost of this size or more means that the choice, or the pair of choices, is not allowed.
inline constexpr std::int64_t kForbidden = 100'000'000'000'000'000;

/// A decision: the costs and the memory of its choices.
struct Node {
  std::int64_t begin = 0;  // alive in [begin, end); not at all if end <= begin
  std::int64_t end = 0;
  std::vector<std::int64_t> costs;   // per choice, at least 0
  std::vector<std::int64_t> usages;  // bytes per choice while it is alive, at least 0; empty: no choice needs memory
};

/// The costs of the pairs of choices of two nodes.
struct Edge {
  std::int32_t first = 0;
  std::int32_t second = 0;
  std::vector<std::int64_t> costs;  // [choices of first, choices of second], row-major, at least 0
};

/// Several edges may connect the same nodes; their costs are added. An edge may connect a node to itself; then only the
/// diagonal of its costs is used.
struct Problem {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::optional<std::int64_t> memory_limit;  // bounds the sum of the usages of the nodes that are alive, at every time
};

/// Checks sizes and ranges. Error, with the node or edge, if the problem is not well formed.
void check(const Problem& problem);

/// The cost and the peak of an assignment, which selects one choice for each node.
struct Evaluation {
  std::int64_t cost = 0;       // the sum of the costs of all allowed choices and pairs
  std::int64_t forbidden = 0;  // the number of choices and pairs that are not allowed
  std::int64_t peak = 0;       // the largest sum of usages of nodes that are alive together
  std::int64_t peak_time = 0;  // the first time with that sum
  [[nodiscard]] bool is_feasible(const Problem& problem) const {
    return forbidden == 0 && (!problem.memory_limit || peak <= *problem.memory_limit);
  }
};

/// Computes the cost and the peak of an assignment from their definition. It shares no code with the solver, so tests
/// can compare both. Sums have 128 bits. Errors: not one choice per node, a choice that the node does not have, a cost
/// above 2^63.
Evaluation evaluate(const Problem& problem, const std::vector<std::int32_t>& choices);

/// A lower bound on the memory of every assignment: the largest sum, at one time, of the least usages of the nodes that
/// are alive.
std::int64_t least_peak(const Problem& problem);

/// Reads an instance of the ASPLOS/EuroSys 2025 contest on intra-operator parallelism, as JSON text. Errors, with
/// `origin`: not JSON, a missing member, a number or length that does not fit, an edge to a node that does not exist.
Problem parse_problem(std::string_view text, std::string_view origin);

/// The text that parse_problem() reads.
std::string problem_text(const Problem& problem);

}  // namespace tessera::solver
