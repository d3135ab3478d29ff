// SPDX-License-Identifier: Apache-2.0
#include "interaction.h"

#include <algorithm>

namespace tessera::solver {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// A number that depends on both; even for seed 0.
std::uint64_t mixed(std::uint64_t seed, std::size_t index) {
  if (seed == 0) return 0;
  std::uint64_t x = seed + 0x9e3779b97f4a7c15ULL * (index + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// The graph of variables while they are eliminated: eliminating one joins all its neighbours. Leaves are kept apart,
/// because hubs have thousands of them.
class Interaction {
 public:
  Interaction(const Model& model, const std::vector<int>& variables, const Places& places,
              const std::vector<char>& is_held)
      : neighbours_(variables.size()),
        size_(variables.size()),
        is_inside_(variables.size()),
        stamp_(variables.size(), 0) {
    for (std::size_t i = 0; i < variables.size(); ++i) {
      size_[i] = model.size[at(variables[i])];
      is_inside_[i] = static_cast<char>(is_held[i] == 0);
      if (is_inside_[i] == 0) continue;
      for (const int e : model.edges_of[at(variables[i])]) {
        const ModelEdge& edge = model.edges[at(e)];
        const int other = places.of[at(edge.a == variables[i] ? edge.b : edge.a)];
        if (other >= 0 && is_held[at(other)] == 0) neighbours_[i].push_back(other);
      }
    }
  }

  // Removes all variables with at most one neighbour.
  void strip_leaves(EliminationOrder& out) {
    std::vector<char> is_leaf(size_.size(), 0);
    for (std::size_t i = 0; i < size_.size(); ++i) {
      if (is_inside_[i] == 0 || neighbours_[i].size() > 1) continue;
      if (!neighbours_[i].empty() && is_leaf[at(neighbours_[i][0])] != 0) continue;  // a pair: only one is a leaf
      is_leaf[i] = 1;
      is_inside_[i] = 0;
      out.order.push_back(static_cast<int>(i));
      out.scopes.push_back(neighbours_[i]);
    }
    for (std::size_t i = 0; i < size_.size(); ++i) {
      if (is_inside_[i] == 0) continue;
      std::erase_if(neighbours_[i], [&](int other) { return is_leaf[at(other)] != 0; });
      push(static_cast<int>(i));
    }
  }

  // Returns the variable with the smallest table, or -1.
  int next() {
    while (!queue_.empty()) {
      const auto [entries, v, stamp] = queue_.top();
      queue_.pop();
      if (is_inside_[at(v)] != 0 && stamp == stamp_[at(v)]) return v;
    }
    return -1;
  }

  [[nodiscard]] double entries(int v) const {
    double out = size_[at(v)];
    for (const int other : neighbours_[at(v)]) out *= size_[at(other)];
    return out;
  }

  std::vector<int> eliminate(int v) {
    std::vector<int> scope = take(v);
    for (const int a : scope) {
      std::vector<int>& of_a = neighbours_[at(a)];
      for (const int b : scope)
        if (b != a && std::find(of_a.begin(), of_a.end(), b) == of_a.end()) of_a.push_back(b);
    }
    for (const int a : scope) push(a);
    return scope;
  }

  // Removes and returns the variable near `v` (or `v`) with the most neighbours, or another one near it.
  int hold(int v, std::uint64_t random) {
    int best = v;
    for (const int other : neighbours_[at(v)])
      if (neighbours_[at(other)].size() > neighbours_[at(best)].size()) best = other;
    if (random % 2 == 1) best = neighbours_[at(v)][random / 2 % neighbours_[at(v)].size()];
    for (const int other : take(best)) push(other);
    return best;
  }

 private:
  using Entry = std::tuple<double, int, int>;  // entries, variable, stamp

  void push(int v) { queue_.emplace(entries(v), v, ++stamp_[at(v)]); }

  std::vector<int> take(int v) {
    is_inside_[at(v)] = 0;
    std::vector<int> scope = std::move(neighbours_[at(v)]);
    for (const int other : scope) std::erase(neighbours_[at(other)], v);
    return scope;
  }

  std::vector<std::vector<int>> neighbours_;
  std::vector<int> size_;
  std::vector<char> is_inside_;
  std::vector<int> stamp_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

EliminationOrder find_order(const Model& model, const std::vector<int>& variables, const Places& places,
                            std::size_t largest, std::uint64_t seed) {
  std::vector<char> is_held(variables.size(), 0);
  std::vector<int> held;
  // A variable that is held was in the tables of those before it, so the order is found again without it.
  while (true) {
    EliminationOrder out;
    Interaction graph(model, variables, places, is_held);
    graph.strip_leaves(out);
    const std::size_t held_before = held.size();
    for (int v = graph.next(); v >= 0; v = graph.next()) {
      if (graph.entries(v) > static_cast<double>(largest)) {
        held.push_back(graph.hold(v, mixed(seed, held.size())));
        is_held[at(held.back())] = 1;
        continue;
      }
      out.order.push_back(v);
      out.scopes.push_back(graph.eliminate(v));
    }
    if (held.size() > held_before) continue;
    out.held = std::move(held);
    return out;
  }
}

}  // namespace tessera::solver
