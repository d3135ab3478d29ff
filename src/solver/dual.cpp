// SPDX-License-Identifier: Apache-2.0
#include "dual.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/assignment.h"

namespace tessera::solver {
namespace {

constexpr int kStepsAtZero = 20;  // before prices move, so that the messages know the costs
constexpr int kPatience = 15;     // steps without a better bound until the pace falls
constexpr double kPaceFactor = 0.7;
constexpr double kLeastPace = 1e-4;
constexpr double kReachShare = 0.1;  // the costs that a limit may add, if the bound says nothing about their size
constexpr double kRounding = 1e-6;   // of the prices of the room: more than the rounding errors of a bound

std::size_t dual_at(int index) { return static_cast<std::size_t>(index); }

// The cost of the choices of least usage, without edges.
double cost_of_least_usages(const Model& model) {
  double sum = 0;
  for (int v = 0; v < model.count(); ++v) {
    const auto costs = model.costs_of(v);
    const auto usages = model.usages_of(v);
    const double least = *std::min_element(usages.begin(), usages.end());
    double cost = kNever;
    for (std::size_t i = 0; i < costs.size(); ++i)
      if (usages[i] <= least) cost = std::min(cost, costs[i]);
    if (!is_never(cost)) sum += cost;
  }
  return sum;
}

double most_allowed(std::span<const double> costs) {
  double most = 0;
  for (const double cost : costs)
    if (!is_never(cost)) most = std::max(most, cost);
  return most;
}

// No assignment without forbidden choices costs more.
double most_cost(const Model& model) {
  double sum = model.constant;
  for (int v = 0; v < model.count(); ++v) sum += most_allowed(model.costs_of(v));
  for (const ModelEdge& edge : model.edges)
    sum += most_allowed(
        {model.row(edge, edge.a, 0), dual_at(model.size[dual_at(edge.a)]) * dual_at(model.size[dual_at(edge.b)])});
  return sum;
}

}  // namespace

void Prices::set(std::vector<double> prices) {
  at_ = std::move(prices);
  for (std::size_t t = 0; t < at_.size(); ++t) before_[t + 1] = before_[t] + at_[t];
}

Dual::Dual(const Model& model)
    : model_(model),
      messages_(model),
      prices_(model.points()),
      best_(model.points()),
      costs_(model.cost),
      choices_(dual_at(model.count()), 0),
      reach_(kReachShare * cost_of_least_usages(model)),
      most_cost_(most_cost(model)),
      bound_(-std::numeric_limits<double>::infinity()) {}

std::int64_t Dual::work() const { return messages_.work() + model_.count() + model_.points(); }

double Dual::scale() const { return std::max({1.0, std::fabs(bound_), reach_}); }

bool Dual::has_converged() const { return pace_ <= kLeastPace; }

void Dual::charge() {
  for (int v = 0; v < model_.count(); ++v) {
    const double price = prices_.of(model_.begin[dual_at(v)], model_.end[dual_at(v)]);
    const std::size_t first = model_.offset[dual_at(v)];
    for (std::size_t i = first; i < first + dual_at(model_.size[dual_at(v)]); ++i)
      costs_[i] = model_.cost[i] + price * model_.usage[i];
  }
}

void Dual::settle() {
  prices_ = best_;
  (void)pass();
}

// Passes messages once. Returns the bound that they prove.
double Dual::pass() {
  charge();
  double bound = messages_.pass(costs_, choices_) + model_.constant;
  double room = 0;  // at these prices
  for (int t = 0; t < model_.points(); ++t) room += prices_.at()[dual_at(t)] * model_.room[dual_at(t)];
  bound -= room;
  if (bound > most_cost_ + std::fabs(most_cost_) + kRounding * room) is_infeasible_ = true;
  ++since_better_;
  if (bound > bound_) {
    if (bound > bound_ + 1e-6 * std::fabs(bound_)) since_better_ = 0;
    bound_ = bound;
    best_ = prices_;
  }
  return bound;
}

void Dual::step() {
  const double bound = pass();
  if (since_better_ > kPatience) {
    since_better_ = 0;
    pace_ = std::max(kLeastPace, pace_ * kPaceFactor);
  }
  if (++steps_ > kStepsAtZero) move_prices(bound);
}

// A step along the subgradient: what the assignment uses at each point, minus the room there.
void Dual::move_prices(double bound) {
  Assignment found(model_, choices_);
  std::vector<double> prices = prices_.at();
  std::vector<double> slope(prices.size());
  double square = 0;
  for (std::size_t t = 0; t < prices.size(); ++t) {
    slope[t] = found.use[t] - model_.room[t];
    if (prices[t] <= 0 && slope[t] < 0) slope[t] = 0;
    square += slope[t] * slope[t];
  }
  if (square <= 0) return;
  const double gap = std::clamp(found.score.cost - bound, 0.05 * scale(), scale());
  for (std::size_t t = 0; t < prices.size(); ++t)
    prices[t] = std::max(0.0, prices[t] + 0.1 * pace_ * gap / square * slope[t]);
  prices_.set(std::move(prices));
}

}  // namespace tessera::solver
