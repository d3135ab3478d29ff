// SPDX-License-Identifier: Apache-2.0
#include "graph/working_graph.h"

#include <algorithm>
#include <map>

namespace tessera::solver {
namespace {

double model_cost(std::int64_t cost) { return cost >= kForbidden ? kNever : static_cast<double>(cost); }
double capped(double cost) { return is_never(cost) ? kNever : cost; }

std::vector<double> transposed(const std::vector<double>& costs, std::size_t rows, std::size_t columns) {
  std::vector<double> out(costs.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) out[j * rows + i] = costs[i * columns + j];
  return out;
}

template <class T>
void keep_only(std::vector<T>& values, const std::vector<char>& keep) {
  std::size_t to = 0;
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i] != 0) values[to++] = values[i];
  values.resize(to);
}

// The row minima of a matrix and then the column minima of the rest. Returns false if something remains.
bool split_sum(const std::vector<double>& costs, std::vector<double>& rows, std::vector<double>& columns) {
  const std::size_t width = columns.size();
  for (std::size_t j = 0; j < width; ++j) columns[j] = costs[j];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = costs[i * width] - columns[0];
    for (std::size_t j = 0; j < width; ++j)
      if (is_never(costs[i * width + j]) || costs[i * width + j] != rows[i] + columns[j]) return false;
  }
  return true;
}

}  // namespace

WorkingGraph::WorkingGraph(const Problem& problem) : nodes(problem.nodes.size()), is_changed(nodes.size(), 1) {
  for (std::size_t v = 0; v < nodes.size(); ++v) {
    const Node& from = problem.nodes[v];
    for (std::size_t i = 0; i < from.costs.size(); ++i) nodes[v].ids.push_back(static_cast<int>(i));
    for (const std::int64_t cost : from.costs) nodes[v].costs.push_back(model_cost(cost));
    nodes[v].usages = from.usages.empty() ? std::vector<std::int64_t>(from.costs.size(), 0) : from.usages;
  }
  for (const Edge& from : problem.edges) {
    std::vector<double> costs(from.costs.size());
    std::transform(from.costs.begin(), from.costs.end(), costs.begin(), model_cost);
    add_edge(from.first, from.second, std::move(costs));
  }
}

void WorkingGraph::add_edge(int a, int b, std::vector<double> costs) {
  const std::size_t rows = node(a).costs.size();
  const std::size_t columns = node(b).costs.size();
  if (a == b) {
    for (std::size_t i = 0; i < rows; ++i) node(a).costs[i] = capped(node(a).costs[i] + costs[i * columns + i]);
    return;
  }
  const int few = node(a).edges.size() < node(b).edges.size() ? a : b;
  for (const int e : node(few).edges) {
    if (other(e, few) != (few == a ? b : a)) continue;
    WorkingEdge& same = edge(e);
    if (same.a != a) costs = transposed(costs, rows, columns);
    for (std::size_t i = 0; i < costs.size(); ++i) same.costs[i] = capped(same.costs[i] + costs[i]);
    return;
  }
  for (const int end : {a, b}) node(end).edges.push_back(static_cast<int>(edges.size()));
  edges.push_back({.a = a, .b = b, .costs = std::move(costs)});
}

bool WorkingGraph::drop_forbidden(int v) {
  const WorkingNode& mine = node(v);
  std::vector<char> keep(mine.costs.size());
  for (std::size_t i = 0; i < keep.size(); ++i) keep[i] = static_cast<char>(!is_never(mine.costs[i]));
  for (const int e : mine.edges) {
    const std::vector<double> costs = matrix_from(e, v);
    const std::size_t width = costs.size() / keep.size();
    for (std::size_t i = 0; i < keep.size(); ++i)
      if (std::all_of(&costs[i * width], &costs[i * width] + width, is_never)) keep[i] = 0;
  }
  return keep_choices(v, keep);
}

bool WorkingGraph::keep_choices(int v, const std::vector<char>& keep) {
  if (std::all_of(keep.begin(), keep.end(), [](char kept) { return kept != 0; })) return false;
  WorkingNode& mine = node(v);
  for (const int e : mine.edges) {
    WorkingEdge& changed = edge(e);
    const std::size_t columns = node(changed.b).costs.size();
    std::vector<char> entries(changed.costs.size());
    for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = keep[changed.a == v ? i / columns : i % columns];
    keep_only(changed.costs, entries);
    is_changed[static_cast<std::size_t>(other(e, v))] = 1;
  }
  is_changed[static_cast<std::size_t>(v)] = 1;
  keep_only(mine.ids, keep);
  keep_only(mine.costs, keep);
  keep_only(mine.usages, keep);
  return true;
}

bool WorkingGraph::fold_sums(int v) {
  bool any = false;
  const std::vector<int> edges_before = node(v).edges;
  for (const int e : edges_before) any |= fold_sum(e);
  return any;
}

bool WorkingGraph::fold_sum(int e) {
  WorkingNode& a = node(edge(e).a);
  WorkingNode& b = node(edge(e).b);
  std::vector<double> rows(a.costs.size());
  std::vector<double> columns(b.costs.size());
  if (!split_sum(edge(e).costs, rows, columns)) return false;
  for (std::size_t i = 0; i < rows.size(); ++i) a.costs[i] += rows[i];
  for (std::size_t j = 0; j < columns.size(); ++j) b.costs[j] += columns[j];
  remove_edge(e);
  return true;
}

void WorkingGraph::remove_edge(int e) {
  for (const int end : {edge(e).a, edge(e).b}) {
    std::erase(node(end).edges, e);
    is_changed[static_cast<std::size_t>(end)] = 1;
  }
  edge(e).is_present = false;
  edge(e).costs = {};
}

std::vector<double> WorkingGraph::matrix_from(int e, int v) {
  const WorkingEdge& found = edge(e);
  if (found.a == v) return found.costs;
  return transposed(found.costs, node(found.a).costs.size(), node(found.b).costs.size());
}

CostRow WorkingGraph::row(int e, int v, std::size_t i) {
  const WorkingEdge& found = edge(e);
  const std::size_t columns = node(found.b).costs.size();
  if (found.a == v) return {found.costs.data() + i * columns, 1, columns};
  return {found.costs.data() + i, columns, node(found.a).costs.size()};
}

Removed WorkingGraph::remove(int v, double& constant) {
  WorkingNode& mine = node(v);
  Removed out{.node = v, .ids = mine.ids, .costs = mine.costs, .links = {}};
  for (const int e : mine.edges) out.links.push_back({other(e, v), node(other(e, v)).ids, matrix_from(e, v)});
  while (!mine.edges.empty()) remove_edge(mine.edges.back());
  mine.is_present = false;
  const std::size_t rows = mine.costs.size();
  if (out.links.empty()) {
    constant += *std::min_element(mine.costs.begin(), mine.costs.end());
    return out;
  }
  const bool is_pair = out.links.size() == 2;
  const Removed::Link& a = out.links[0];
  const Removed::Link& b = out.links.back();
  const std::size_t columns = is_pair ? b.ids.size() : 1;
  std::vector<double> least(a.ids.size() * columns, kNever);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t x = 0; x < a.ids.size(); ++x) {
      const double sum = mine.costs[i] + a.costs[i * a.ids.size() + x];
      for (std::size_t y = 0; y < columns; ++y) {
        double& entry = least[x * columns + y];
        entry = std::min(entry, is_pair ? sum + b.costs[i * columns + y] : sum);
      }
    }
  if (is_pair) {
    add_edge(a.node, b.node, std::move(least));
    return out;
  }
  for (std::size_t x = 0; x < least.size(); ++x) node(a.node).costs[x] = capped(node(a.node).costs[x] + least[x]);
  return out;
}

}  // namespace tessera::solver
