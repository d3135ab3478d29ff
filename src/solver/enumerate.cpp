// SPDX-License-Identifier: Apache-2.0
#include "enumerate.h"

#include <algorithm>
#include <limits>

namespace tessera::solver {
namespace {

std::size_t depth_at(int index) { return static_cast<std::size_t>(index); }

class DepthFirst {
 public:
  DepthFirst(const Model& model, std::int64_t steps)
      : model_(model), steps_(steps), choices_(depth_at(model.count()), 0), use_(model.room.size(), 0) {
    least_.resize(depth_at(model.count()) + 1, 0);
    for (int v = model.count() - 1; v >= 0; --v) {
      const auto costs = model.costs_of(v);
      least_[depth_at(v)] = least_[depth_at(v) + 1] + *std::min_element(costs.begin(), costs.end());
      for (const int e : model.edges_of[depth_at(v)]) {
        const ModelEdge& edge = model.edges[depth_at(e)];
        if (std::max(edge.a, edge.b) != v) continue;  // the pair is known when its later end is
        const double* first = model.matrices.data() + edge.ab;
        const auto entries = model.size[depth_at(edge.a)] * model.size[depth_at(edge.b)];
        least_[depth_at(v)] += *std::min_element(first, first + entries);
      }
    }
  }

  Enumeration run() {
    visit(0, model_.constant);
    return {steps_ > 0, best_};
  }

 private:
  void visit(int v, double cost) {
    if (v == model_.count()) {
      best_cost_ = cost;
      best_ = choices_;
      return;
    }
    for (int i = 0; i < model_.size[depth_at(v)] && steps_ > 0; ++i) {
      --steps_;
      const double sum = cost + cost_of(v, i);
      if (is_never(sum) || sum + least_[depth_at(v) + 1] >= best_cost_) continue;
      choices_[depth_at(v)] = i;
      const double usage = model_.usages_of(v)[depth_at(i)];
      if (add(v, usage)) visit(v + 1, sum);
      add(v, -usage);
    }
  }

  // The cost of the choice, and of the pairs with earlier variables.
  double cost_of(int v, int i) {
    double out = model_.costs_of(v)[depth_at(i)];
    for (const int e : model_.edges_of[depth_at(v)]) {
      const ModelEdge& edge = model_.edges[depth_at(e)];
      const int other = edge.a == v ? edge.b : edge.a;
      if (other < v) out += model_.row(edge, v, i)[choices_[depth_at(other)]];
    }
    return out;
  }

  bool add(int v, double usage) {
    bool fits = true;
    for (auto t = depth_at(model_.begin[depth_at(v)]); t < depth_at(model_.end[depth_at(v)]); ++t) {
      use_[t] += usage;
      fits &= use_[t] <= model_.room[t];
    }
    return fits;
  }

  const Model& model_;
  std::int64_t steps_;
  Choices choices_;
  std::vector<double> use_;
  std::vector<double> least_;  // per variable: the least cost of it and all later ones
  std::optional<Choices> best_;
  double best_cost_ = std::numeric_limits<double>::infinity();
};

}  // namespace

Enumeration enumerate(const Model& model, std::int64_t steps) { return DepthFirst(model, steps).run(); }

}  // namespace tessera::solver
