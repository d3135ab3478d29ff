// SPDX-License-Identifier: Apache-2.0
#include "region_enumeration.h"

#include <algorithm>

namespace tessera::solver {
namespace {

std::size_t region_at(int index) { return static_cast<std::size_t>(index); }

class RegionEnumeration {
 public:
  RegionEnumeration(const Model& model, const Assignment& now, const std::vector<int>& region, std::int64_t& steps)
      : model_(model), region_(region), steps_(steps), choices_(now.choices), use_(now.use) {
    place_.assign(model.size.size(), -1);
    for (std::size_t i = 0; i < region.size(); ++i) place_[region_at(region[i])] = static_cast<int>(i);
    for (const int v : region) add(v, -1);
    double before = 0;
    for (std::size_t i = 0; i < region.size(); ++i) before += cost_of(i, choices_[region_at(region[i])]);
    best_cost_ = before - kLeastGain;
    least_.assign(region.size() + 1, 0);
    for (std::size_t i = region.size(); i-- > 0;) {
      const auto costs = model.costs_of(region[i]);
      least_[i] = least_[i + 1] + *std::min_element(costs.begin(), costs.end());
    }
  }

  std::vector<int> run() {
    visit(0, 0);
    return std::move(best_);
  }

 private:
  void visit(std::size_t i, double cost) {
    if (i == region_.size()) {
      best_cost_ = cost - kLeastGain;
      best_.clear();
      for (const int v : region_) best_.push_back(choices_[region_at(v)]);
      return;
    }
    const int v = region_[i];
    for (int choice = 0; choice < model_.size[region_at(v)] && steps_ > 0; ++choice) {
      --steps_;
      const double sum = cost + cost_of(i, choice);
      if (is_never(sum) || sum + least_[i + 1] > best_cost_) continue;
      choices_[region_at(v)] = choice;
      if (add(v, 1)) visit(i + 1, sum);
      add(v, -1);
    }
  }

  // The cost of a choice of the variable at place `i`, with the pairs whose other end is outside or at an earlier place.
  double cost_of(std::size_t i, int choice) const {
    const int v = region_[i];
    double out = model_.costs_of(v)[region_at(choice)];
    for (const int e : model_.edges_of[region_at(v)]) {
      const ModelEdge& edge = model_.edges[region_at(e)];
      const int other = edge.a == v ? edge.b : edge.a;
      if (place_[region_at(other)] < static_cast<int>(i))
        out += model_.row(edge, v, choice)[choices_[region_at(other)]];
    }
    return out;
  }

  // Adds the usage of the choice, `sign` times. Returns false if there is then no room at a point.
  bool add(int v, int sign) {
    const double usage = sign * model_.usages_of(v)[region_at(choices_[region_at(v)])];
    bool fits = true;
    if (usage == 0) return fits;
    for (int t = model_.begin[region_at(v)]; t < model_.end[region_at(v)]; ++t)
      fits &= (use_[region_at(t)] += usage) <= model_.room[region_at(t)];
    return fits;
  }

  const Model& model_;
  const std::vector<int>& region_;
  std::int64_t& steps_;
  Choices choices_;
  std::vector<double> use_;
  std::vector<int> place_;     // in the region, or -1
  std::vector<double> least_;  // [i]: of the variables from place i on
  double best_cost_ = 0;       // what a better assignment must not exceed
  std::vector<int> best_;
};

}  // namespace

std::vector<int> better_choices(const Model& model, const Assignment& now, const std::vector<int>& region,
                                std::int64_t& steps) {
  return RegionEnumeration(model, now, region, steps).run();
}

}  // namespace tessera::solver
