// SPDX-License-Identifier: Apache-2.0
// The decision graph while reductions change it.
#pragma once

#include <vector>

#include "graph/reduce.h"

namespace tessera::solver {

struct WorkingNode {
  std::vector<int> ids;  // the choices that are left, in the problem's numbers
  std::vector<double> costs;
  std::vector<std::int64_t> usages;
  std::vector<int> edges;
  bool is_present = true;
  bool is_free = false;  // the choices do not differ in memory
};

struct WorkingEdge {
  int a = 0;
  int b = 0;
  std::vector<double> costs;  // [choices of a, choices of b]
  bool is_present = true;
};

/// A row or a column of the costs of an edge.
struct CostRow {
  const double* first = nullptr;
  std::size_t step = 1;
  std::size_t count = 0;
  double operator[](std::size_t x) const { return first[x * step]; }
};

struct WorkingGraph {
  /// Joins equal pairs of nodes to one edge, and adds loops to the costs of their node.
  explicit WorkingGraph(const Problem& problem);

  std::vector<WorkingNode> nodes;
  std::vector<WorkingEdge> edges;
  std::vector<char> is_changed;  // per node

  WorkingNode& node(int v) { return nodes[static_cast<std::size_t>(v)]; }
  WorkingEdge& edge(int e) { return edges[static_cast<std::size_t>(e)]; }
  int other(int e, int v) { return edge(e).a == v ? edge(e).b : edge(e).a; }

  /// Removes the choices of `v` that never are allowed. Returns true if there were any.
  bool drop_forbidden(int v);
  /// Removes the choices with keep[i] == 0.
  bool keep_choices(int v, const std::vector<char>& keep);
  /// Removes the edges of `v` whose matrix is the sum of a vector per node.
  bool fold_sums(int v);
  /// The costs that an edge gives to choice `i` of `v`, by the choice of the other node.
  CostRow row(int e, int v, std::size_t i);
  /// Removes a node of at most two neighbours. Adds its least cost to them, or to `constant`.
  Removed remove(int v, double& constant);

 private:
  void add_edge(int a, int b, std::vector<double> costs);
  bool fold_sum(int e);
  void remove_edge(int e);
  /// [choices of v, choices of the other node]
  std::vector<double> matrix_from(int e, int v);
};

}  // namespace tessera::solver
