// SPDX-License-Identifier: Apache-2.0
#include "graph/reduce.h"

#include <algorithm>
#include <map>

#include "graph/timeline.h"
#include "graph/working_graph.h"
#include "tessera/base/error.h"

namespace tessera::solver {
namespace {

constexpr int kRounds = 12;              // of the loop over all changed nodes
constexpr std::size_t kLargest = 65536;  // entries of a matrix that the removal of a node may make

/// Applies the reductions until nothing changes.
class Reducer {
 public:
  Reducer(const Problem& problem, WorkingGraph& graph, Reduced& out) : problem_(problem), graph_(graph), out_(out) {}

  void run() {
    for (int round = 0; round < kRounds; ++round) {
      find_free_nodes();
      std::vector<char> now(graph_.nodes.size(), 0);
      now.swap(graph_.is_changed);
      bool any = false;
      for (std::size_t v = 0; v < now.size(); ++v)
        if (now[v] != 0 && graph_.nodes[v].is_present) any |= reduce_node(static_cast<int>(v), round > 0);
      if (!any && round > 0) break;
      if (round == 0) graph_.is_changed.assign(now.size(), 1);
    }
    find_free_nodes();
  }

  Timeline timeline;

 private:
  // Finds the nodes whose choices do not differ in the memory that they use when memory may be short.
  void find_free_nodes() {
    std::vector<std::int64_t> least(graph_.nodes.size());
    std::vector<std::int64_t> most(graph_.nodes.size());
    for (std::size_t v = 0; v < least.size(); ++v) {
      const auto [low, high] = std::minmax_element(graph_.nodes[v].usages.begin(), graph_.nodes[v].usages.end());
      least[v] = *low;
      most[v] = *high;
    }
    timeline = find_timeline(problem_, least, most);
    for (std::size_t v = 0; v < least.size(); ++v) {
      const Node& node = problem_.nodes[v];
      if (node.end <= node.begin || timeline.first(node.begin) == timeline.first(node.end)) least[v] = most[v];
      WorkingNode& mine = graph_.nodes[v];
      mine.is_free = least[v] == most[v];
      if (mine.is_free) std::fill(mine.usages.begin(), mine.usages.end(), mine.usages.front());
    }
  }

  bool reduce_node(int v, bool with_dominance) {
    bool any = graph_.drop_forbidden(v);
    require(!graph_.node(v).costs.empty(),
            "{}: each combination of choices is forbidden, because node {} has no allowed choice left", problem_.name,
            v);
    if (with_dominance) any |= drop_dominated(v);
    any |= graph_.fold_sums(v);
    if (graph_.node(v).is_free && remove_node(v)) any = true;
    return any;
  }

  // For each edge of `v`, the choice of the neighbour with which choice `i` costs least.
  std::vector<std::size_t> least_with(int v, std::size_t i) {
    std::vector<std::size_t> out;
    for (const int e : graph_.node(v).edges) {
      const CostRow row = graph_.row(e, v, i);
      std::size_t least = 0;
      for (std::size_t x = 1; x < row.count; ++x)
        if (row[x] < row[least]) least = x;
      out.push_back(least);
    }
    return out;
  }

  // Whether choice `j` costs more than `i` if the neighbours choose `others`. Far less expensive than all choices.
  bool costs_more(int v, std::size_t j, std::size_t i, const std::vector<std::size_t>& others) {
    const WorkingNode& node = graph_.node(v);
    double difference = node.costs[j] - node.costs[i];
    for (std::size_t k = 0; k < others.size(); ++k)
      difference += graph_.row(node.edges[k], v, j)[others[k]] - graph_.row(node.edges[k], v, i)[others[k]];
    return difference > 0;
  }

  // The largest of the costs of choice `j` of `v` minus those of `i`, over the choices of the other node.
  double largest_difference(int e, int v, std::size_t j, std::size_t i) {
    const CostRow first = graph_.row(e, v, j);
    const CostRow second = graph_.row(e, v, i);
    double out = -kNever;
    for (std::size_t x = 0; x < first.count; ++x) out = std::max(out, first[x] - second[x]);
    return out;
  }

  // Returns true if choice `j` costs at most as much as `i` whatever the neighbours choose, such as `others`.
  bool dominates(int v, std::size_t j, std::size_t i, const std::vector<std::size_t>& others) {
    const WorkingNode& node = graph_.node(v);
    if (node.usages[j] > node.usages[i]) return false;
    if (costs_more(v, j, i, others)) {
      out_.work += static_cast<std::int64_t>(node.edges.size());
      return false;
    }
    double worst = node.costs[j] - node.costs[i];
    for (const int e : node.edges) {
      worst += largest_difference(e, v, j, i);
      ++out_.work;
      if (worst >= kNever / 2) return false;
    }
    return worst <= 0;
  }

  bool drop_dominated(int v) {
    const std::size_t count = graph_.node(v).costs.size();
    std::vector<char> keep(count, 1);
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<std::size_t> others = least_with(v, i);
      for (std::size_t j = 0; j < count && keep[i] != 0; ++j)
        if (j != i && keep[j] != 0 && dominates(v, j, i, others)) keep[i] = 0;
    }
    return graph_.keep_choices(v, keep);
  }

  // Removes a node of at most two neighbours that has no say in memory.
  bool remove_node(int v) {
    const WorkingNode& node = graph_.node(v);
    if (node.edges.size() > 2) return false;
    if (node.edges.size() == 2) {
      std::size_t entries = 1;
      for (const int e : node.edges) entries *= graph_.node(graph_.other(e, v)).costs.size();
      if (entries > kLargest) return false;
    }
    out_.removed.push_back(graph_.remove(v, out_.model.constant));
    return true;
  }

  const Problem& problem_;
  WorkingGraph& graph_;
  Reduced& out_;
};

void add_matrix(Model& model, const std::vector<double>& costs, std::size_t rows, std::size_t columns,
                ModelEdge& edge) {
  edge.ab = model.matrices.size();
  model.matrices.insert(model.matrices.end(), costs.begin(), costs.end());
  edge.ba = model.matrices.size();
  for (std::size_t j = 0; j < columns; ++j)
    for (std::size_t i = 0; i < rows; ++i) model.matrices.push_back(costs[i * columns + j]);
}

void add_variable(const Node& original, const WorkingNode& node, const Timeline& timeline, Model& model) {
  model.size.push_back(static_cast<int>(node.costs.size()));
  model.offset.push_back(model.cost.size());
  model.cost.insert(model.cost.end(), node.costs.begin(), node.costs.end());
  const std::int64_t least = *std::min_element(node.usages.begin(), node.usages.end());
  for (const std::int64_t usage : node.usages) model.usage.push_back(static_cast<double>(usage - least));
  const bool is_alive = !node.is_free && original.end > original.begin;
  model.begin.push_back(is_alive ? timeline.first(original.begin) : 0);
  model.end.push_back(is_alive ? timeline.first(original.end) : 0);
}

void build_model(const Problem& problem, const WorkingGraph& graph, const Timeline& timeline, Reduced& out) {
  Model& model = out.model;
  std::vector<int> variable(graph.nodes.size(), -1);
  for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
    if (!graph.nodes[v].is_present) continue;
    variable[v] = model.count();
    out.node.push_back(static_cast<int>(v));
    out.ids.push_back(graph.nodes[v].ids);
    add_variable(problem.nodes[v], graph.nodes[v], timeline, model);
  }
  model.room = timeline.room;
  model.time = timeline.time;
  model.edges_of.resize(model.size.size());
  for (const WorkingEdge& edge : graph.edges) {
    if (!edge.is_present) continue;
    ModelEdge made{.a = variable[static_cast<std::size_t>(edge.a)], .b = variable[static_cast<std::size_t>(edge.b)]};
    add_matrix(model, edge.costs, static_cast<std::size_t>(model.size[static_cast<std::size_t>(made.a)]),
               static_cast<std::size_t>(model.size[static_cast<std::size_t>(made.b)]), made);
    for (const int end : {made.a, made.b})
      model.edges_of[static_cast<std::size_t>(end)].push_back(static_cast<int>(model.edges.size()));
    model.edges.push_back(made);
  }
}

std::size_t index_of(const std::vector<int>& ids, int id) {
  return static_cast<std::size_t>(std::find(ids.begin(), ids.end(), id) - ids.begin());
}

}  // namespace

std::vector<std::int32_t> Reduced::extend(const Choices& choices) const {
  std::vector<std::int32_t> out(node.size() + removed.size(), -1);
  for (std::size_t v = 0; v < node.size(); ++v)
    out[static_cast<std::size_t>(node[v])] = ids[v][static_cast<std::size_t>(choices[v])];
  for (auto it = removed.rbegin(); it != removed.rend(); ++it) {
    std::vector<double> costs = it->costs;
    for (const Removed::Link& link : it->links) {
      const std::size_t column = index_of(link.ids, out[static_cast<std::size_t>(link.node)]);
      for (std::size_t i = 0; i < costs.size(); ++i) costs[i] += link.costs[i * link.ids.size() + column];
    }
    const auto best = static_cast<std::size_t>(std::min_element(costs.begin(), costs.end()) - costs.begin());
    out[static_cast<std::size_t>(it->node)] = it->ids[best];
  }
  return out;
}

Reduced reduce(const Problem& problem) {
  Reduced out;
  WorkingGraph graph(problem);
  Reducer reducer(problem, graph, out);
  reducer.run();
  build_model(problem, graph, reducer.timeline, out);
  return out;
}

}  // namespace tessera::solver
