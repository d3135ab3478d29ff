// SPDX-License-Identifier: Apache-2.0
#include "exchange.h"

#include <algorithm>

namespace tessera::solver {
namespace {

constexpr int kMostForced = 64;  // neighbours of neighbours that a choice may change
constexpr int kSweeps = 3;

std::size_t exchange_at(int index) { return static_cast<std::size_t>(index); }
int far_end(const ModelEdge& edge, int v) { return edge.a == v ? edge.b : edge.a; }

}  // namespace

Exchange::Exchange(const Model& model) : model_(model) {
  for (int v = 0; v < model.count(); ++v) {
    const auto usages = model.usages_of(v);
    const bool uses_memory = model.begin[exchange_at(v)] < model.end[exchange_at(v)];
    if (uses_memory &&
        *std::max_element(usages.begin(), usages.end()) > *std::min_element(usages.begin(), usages.end()))
      flexible_.push_back(v);
    work_ += std::int64_t{2} * kSweeps *
             static_cast<std::int64_t>(usages.size() * (1 + model.edges_of[exchange_at(v)].size()));
  }
}

double Exchange::usage_of(int v, int choice) const { return model_.usages_of(v)[exchange_at(choice)]; }

// The cost of a choice with its allowed pairs. Counts the pairs that are not allowed.
double Exchange::cost_of(int v, int choice, int& forbidden) const {
  double out = model_.costs_of(v)[exchange_at(choice)];
  forbidden = 0;
  for (const int e : model_.edges_of[exchange_at(v)]) {
    const ModelEdge& edge = model_.edges[exchange_at(e)];
    const double pair = model_.row(edge, v, choice)[choices_[exchange_at(far_end(edge, v))]];
    if (is_never(pair))
      ++forbidden;
    else
      out += pair;
  }
  return out;
}

bool Exchange::fits() const {
  for (int t = 0; t < model_.points(); ++t)
    if (use_[exchange_at(t)] > model_.room[exchange_at(t)]) return false;
  return true;
}

bool Exchange::has_room(int v, double more) const {
  for (int t = model_.begin[exchange_at(v)]; t < model_.end[exchange_at(v)]; ++t)
    if (use_[exchange_at(t)] + more > model_.room[exchange_at(t)]) return false;
  return true;
}

void Exchange::set(int v, int choice) {
  int& now = choices_[exchange_at(v)];
  const double more = usage_of(v, choice) - usage_of(v, now);
  for (int t = model_.begin[exchange_at(v)]; more != 0 && t < model_.end[exchange_at(v)]; ++t)
    use_[exchange_at(t)] += more;
  int added = 0;
  int removed = 0;
  cost_ += cost_of(v, choice, added) - cost_of(v, now, removed);
  forbidden_ += added - removed;
  now = choice;
}

// Sets a choice. Neighbours that it forbids take their least expensive choice that it allows, and so on.
bool Exchange::force(int v, int choice) {
  forced_ = {v};
  set(v, choice);
  for (std::size_t next = 0; next < forced_.size(); ++next) {
    if (forced_.size() > kMostForced) return false;
    for (const int e : model_.edges_of[exchange_at(forced_[next])]) {
      const ModelEdge& edge = model_.edges[exchange_at(e)];
      const int other = far_end(edge, forced_[next]);
      const double* row = model_.row(edge, forced_[next], choices_[exchange_at(forced_[next])]);
      if (!is_never(row[choices_[exchange_at(other)]])) continue;
      if (std::find(forced_.begin(), forced_.end(), other) != forced_.end()) return false;
      const auto costs = model_.costs_of(other);
      int best = -1;
      for (int i = 0; i < static_cast<int>(costs.size()); ++i)
        if (!is_never(row[i]) && (best < 0 || costs[exchange_at(i)] < costs[exchange_at(best)])) best = i;
      if (best < 0) return false;
      set(other, best);
      forced_.push_back(other);
    }
  }
  return forbidden_ == 0;
}

// Takes the choice of least cost, and of least usage among equal ones, that there is room for.
bool Exchange::take_better_choice(int v) {
  const int now = choices_[exchange_at(v)];
  int forbidden = 0;
  const double old_cost = cost_of(v, now, forbidden);
  const double old_usage = usage_of(v, now);
  int best = now;
  double best_cost = old_cost;
  double best_usage = old_usage;
  for (int i = 0; i < model_.size[exchange_at(v)]; ++i) {
    const double cost = cost_of(v, i, forbidden);
    const double usage = usage_of(v, i);
    if (forbidden > 0 || cost > best_cost || (cost == best_cost && usage >= best_usage)) continue;
    if (usage > old_usage && !has_room(v, usage - old_usage)) continue;
    best = i;
    best_cost = cost;
    best_usage = usage;
  }
  if (best == now) return false;
  set(v, best);
  return true;
}

// The variables come first whose least expensive choice saves most, in total or for each byte that it needs. The forced
// ones stay.
void Exchange::refill(bool for_each_byte) {
  std::vector<std::pair<double, int>> order;
  for (int v = 0; v < model_.count(); ++v) {
    if (std::find(forced_.begin(), forced_.end(), v) != forced_.end()) continue;
    const auto costs = model_.costs_of(v);
    const auto least = std::min_element(costs.begin(), costs.end());
    const int now = choices_[exchange_at(v)];
    const double gain = costs[exchange_at(now)] - *least;
    const double bytes = usage_of(v, static_cast<int>(least - costs.begin())) - usage_of(v, now);
    order.emplace_back(for_each_byte ? -gain / std::max(1.0, bytes) : -gain, v);
  }
  std::stable_sort(order.begin(), order.end());
  bool changes = true;
  for (int sweep = 0; sweep < kSweeps && changes; ++sweep) {
    changes = false;
    for (const auto& [gain, v] : order) changes |= take_better_choice(v);
  }
}

Choices Exchange::better(const Assignment& now, int v, int choice) {
  if (usage_of(v, choice) >= usage_of(v, now.choices[exchange_at(v)])) return {};
  Choices out;
  double least = -kLeastGain;
  for (const bool for_each_byte : {false, true}) {
    choices_ = now.choices;
    use_ = now.use;
    cost_ = 0;  // relative to `now`
    forbidden_ = 0;
    if (!force(v, choice)) return {};
    refill(for_each_byte);
    if (cost_ >= least || !fits()) continue;
    least = cost_;
    out = choices_;
  }
  return out;
}

std::int64_t Exchange::improve(Choices& choices, std::int64_t work) {
  Assignment now(model_, choices);
  std::int64_t done = 0;
  std::size_t since_better = 0;
  for (std::size_t next = 0; since_better < flexible_.size() && done < work; next = (next + 1) % flexible_.size()) {
    ++since_better;
    const int v = flexible_[next];
    for (int i = 0; i < model_.size[exchange_at(v)]; ++i) {
      Choices found = better(now, v, i);
      done += work_;
      if (found.empty()) continue;
      now = Assignment(model_, std::move(found));
      since_better = 0;
      break;
    }
  }
  choices = std::move(now.choices);
  return done;
}

}  // namespace tessera::solver
