// SPDX-License-Identifier: Apache-2.0
// A decision graph: each node selects one of its choices. Nodes and pairs of nodes have costs, and the nodes that are
// alive at a time share a memory limit. Choices of shardings are such a problem, but nothing here knows shardings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::solver {

/// A cost of this size or more means that the choice, or the pair of choices, is not allowed.
inline constexpr std::int64_t kForbidden = 100'000'000'000'000'000;

struct Node {
  std::int64_t begin = 0;  // alive in [begin, end); not at all if end <= begin
  std::int64_t end = 0;
  std::vector<std::int64_t> costs;   // per choice, at least 0
  std::vector<std::int64_t> usages;  // bytes per choice while it is alive, at least 0; empty: no choice needs memory
};

struct Edge {
  std::int32_t first = 0;
  std::int32_t second = 0;
  std::vector<std::int64_t> costs;  // [choices of first, choices of second], row-major, at least 0
};

/// Several edges may join the same nodes; their costs add up. Of an edge from a node to itself, only the diagonal counts.
struct Problem {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::optional<std::int64_t> memory_limit;  // at every time, for the sum of the usages of the nodes that are alive
};

/// Checks sizes and ranges. Error, with the node or edge, if the problem is not well formed.
void check(const Problem& problem);

/// What an assignment of choices costs.
struct Evaluation {
  std::int64_t cost = 0;       // of everything that is allowed
  std::int64_t forbidden = 0;  // the number of choices and pairs that are not allowed
  std::int64_t peak = 0;       // the largest sum of usages of nodes that are alive together
  std::int64_t peak_time = 0;  // the first time with that sum
  [[nodiscard]] bool is_feasible(const Problem& problem) const {
    return forbidden == 0 && (!problem.memory_limit || peak <= *problem.memory_limit);
  }
};

/// Computes the cost and the peak of an assignment from the definition alone: it shares no code with the solver.
/// Sums have 128 bits. Errors: not one choice per node, a choice that the node does not have, a cost above 2^63.
Evaluation evaluate(const Problem& problem, const std::vector<std::int32_t>& choices);

/// Reads an instance of the ASPLOS/EuroSys 2025 contest on intra-operator parallelism, as JSON text. Errors, with
/// `origin`: not JSON, a missing member, a number or length that does not fit, an edge to a node that does not exist.
Problem parse_problem(std::string_view text, std::string_view origin);

}  // namespace tessera::solver
