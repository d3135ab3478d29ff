// SPDX-License-Identifier: Apache-2.0
#include "local_search.h"

#include "region_enumeration.h"

#include <algorithm>
#include <numeric>

namespace tessera::solver {
namespace {

constexpr int kAttempts = 5;           // prices that are tried for a region
constexpr int kStepsToReview = 24;     // after which penalties change
constexpr int kRegionEnumerated = 14;  // variables of a region that is enumerated
constexpr std::int64_t kEnumerationSteps = 4000;
constexpr std::int64_t kWorkPerStep = 40;
constexpr int kDescents = 16;
constexpr std::int64_t kWorkPerVariable = 200;  // to order the variables of a region

std::size_t search_at(int index) { return static_cast<std::size_t>(index); }
int end_opposite(const ModelEdge& edge, int v) { return edge.a == v ? edge.b : edge.a; }

}  // namespace

LocalSearch::LocalSearch(const Model& model, const Prices& prices, double penalty, Choices start, std::uint64_t seed)
    : model_(model),
      prices_(prices),
      now_(model, std::move(start)),
      never_weight_(penalty),
      over_weight_(1e-12 * penalty),
      random_(seed),
      kinds_{{{6, 100000},
              {16, 100000},
              {48, 50000},
              {128, 20000},
              {400, 20000},
              {1500, 10000},
              {0, 100000},
              {kRegionEnumerated, 0, true},
              {0, 10000}}},
      places_(model),
      is_in_(search_at(model.count()), 0),
      costs_(model.cost),
      rest_(model.room.size()),
      change_(model.room.size() + 1) {
  int active = 0;  // points with a price
  for (const double price : prices.at()) active += static_cast<int>(price > 0);
  if (active > 0) over_weight_ = 3 * prices.of(0, model.points()) / active;
  note_result();
}

void LocalSearch::restart(Choices choices) {
  now_ = Assignment(model_, std::move(choices));
  faults_of_ = -1;
  note_result();
}

void LocalSearch::join(const Choices& other) {
  std::vector<int> different;
  for (int v = 0; v < model_.count(); ++v)
    if (other[search_at(v)] != now_.choices[search_at(v)]) different.push_back(v);
  const Assignment theirs(model_, other);
  if (value(theirs.score) < value(now_.score)) now_ = theirs;
  faults_of_ = -1;
  note_result();
  if (!different.empty()) improve(different, kinds_[3].largest);
}

// ---- regions

// Adds the variables around `seed` in the order of their distance, and all leaves of these.
void LocalSearch::add_patch(int seed, std::size_t count, std::vector<int>& out) {
  const auto add = [&](int v) {
    if (is_in_[search_at(v)] != 0) return false;
    is_in_[search_at(v)] = 1;
    out.push_back(v);
    return true;
  };
  std::size_t next = out.size();
  if (!add(seed)) return;
  std::size_t inner = 1;  // variables that are not leaves
  std::vector<int> near;
  for (; next < out.size(); ++next) {
    near.clear();
    for (const int e : model_.edges_of[search_at(out[next])])
      near.push_back(end_opposite(model_.edges[search_at(e)], out[next]));
    for (std::size_t i = near.size(); i > 1; --i) std::swap(near[i - 1], near[search_at(below(i))]);
    for (const int other : near) {
      const bool is_leaf = model_.edges_of[search_at(other)].size() == 1;
      if ((is_leaf || inner < count) && add(other) && !is_leaf) ++inner;
    }
  }
}

int LocalSearch::alive_at(int point) {
  for (int tries = 0; tries < 100; ++tries) {
    const int v = below(model_.size.size());
    if (model_.begin[search_at(v)] <= point && point < model_.end[search_at(v)]) return v;
  }
  return below(model_.size.size());
}

// A variable that is alive together with `v`: they compete for memory.
int LocalSearch::companion(int v) {
  const int begin = model_.begin[search_at(v)];
  const int end = model_.end[search_at(v)];
  return begin < end ? alive_at(begin + below(search_at(end - begin))) : below(model_.size.size());
}

// Finds the variables of the pairs that are not allowed.
void LocalSearch::find_faults() {
  if (faults_of_ == now_.score.forbidden) return;
  faults_of_ = now_.score.forbidden;
  faults_.clear();
  for (const ModelEdge& edge : model_.edges)
    if (is_never(model_.row(edge, edge.a, now_.choices[search_at(edge.a)])[now_.choices[search_at(edge.b)]]))
      faults_.insert(faults_.end(), {edge.a, edge.b});
}

int LocalSearch::seed_variable() {
  const int dice = below(4);
  if (now_.score.forbidden > 0 && dice < 2) {
    find_faults();
    return faults_[search_at(below(faults_.size()))];
  }
  if (now_.score.over > 0 && worst_ >= 0 && dice < 3) return alive_at(worst_);
  return below(model_.size.size());
}

std::vector<int> LocalSearch::region(int count) {
  std::vector<int> out;
  if (count == 0) {
    out.resize(model_.size.size());
    std::iota(out.begin(), out.end(), 0);
    return out;
  }
  const int patches = 1 + below(4);
  const auto share = search_at(std::max(1, count / patches));
  const int seed = seed_variable();
  add_patch(seed, share, out);
  for (int i = 1; i < patches; ++i) add_patch(companion(seed), share, out);
  for (const int v : out) is_in_[search_at(v)] = 0;
  return out;
}

// Frees all variables but those that are held, several times with other ones held. Memory costs its price alone.
std::int64_t LocalSearch::descend() {
  const std::vector<int> all = region(0);
  std::int64_t work = 0;
  extra_.clear();
  charge(all, 1);
  for (int i = 0; i < kDescents; ++i) {
    Elimination elimination(model_, all, places_, kinds_.back().largest, random_() | 1);
    elimination.minimize(costs_, now_.choices);
    work += elimination.work() + static_cast<std::int64_t>(all.size()) * kWorkPerVariable;
  }
  restart(std::move(now_.choices));
  if (now_.score.over > 0) over_weight_ = std::max(over_weight_, never_weight_ / now_.score.over);
  return work;
}

// Enumerates the choices of a small region, so that the memory that some free is used by the others to the last byte.
std::int64_t LocalSearch::enumerate_region() {
  const std::vector<int> variables = region(kRegionEnumerated);
  std::int64_t steps = kEnumerationSteps;
  const std::vector<int> found = better_choices(model_, now_, variables, steps);
  if (!found.empty()) {
    Choices choices = now_.choices;
    for (std::size_t i = 0; i < found.size(); ++i) choices[search_at(variables[i])] = found[i];
    restart(std::move(choices));
  }
  return (kEnumerationSteps - steps) * kWorkPerStep + model_.count() + model_.points();
}

std::int64_t LocalSearch::step() {
  Kind* kind = kinds_.data();
  for (Kind& other : kinds_)
    if (other.work < kind->work && (!other.is_enumerated || now_.score.is_feasible())) kind = &other;
  const std::int64_t work = kind->is_enumerated ? enumerate_region() : improve(region(kind->count), kind->largest);
  kind->work += work;
  if (++steps_ % kStepsToReview != 0) return work;
  never_weight_ *= now_.score.forbidden > 0 ? 1.3 : 0.99;
  over_weight_ *= now_.score.over > 0 ? 1.5 : 0.98;
  return work;
}

// ---- one region

// Sets the costs of the free variables, with the scaled prices and the extra ones.
void LocalSearch::charge(const std::vector<int>& free, double scale) {
  for (const int v : free) {
    const int begin = model_.begin[search_at(v)];
    const int end = model_.end[search_at(v)];
    double price = scale * prices_.of(begin, end);
    for (const auto& [point, more] : extra_)
      if (begin <= point && point < end) price += more;
    const std::size_t first = model_.offset[search_at(v)];
    for (std::size_t i = first; i < first + search_at(model_.size[search_at(v)]); ++i)
      costs_[i] = model_.cost[i] + price * model_.usage[i];
  }
}

void LocalSearch::find_span(const std::vector<int>& free) {
  from_ = model_.points();
  to_ = 0;
  for (const int v : free) {
    if (model_.end[search_at(v)] <= model_.begin[search_at(v)]) continue;
    from_ = std::min(from_, model_.begin[search_at(v)]);
    to_ = std::max(to_, model_.end[search_at(v)]);
  }
  from_ = std::min(from_, to_);
}

// Sets change_ to what the free variables use, as differences from point to point.
void LocalSearch::add_changes(const std::vector<int>& free) {
  std::fill(change_.begin() + from_, change_.begin() + to_ + 1, 0.0);
  for (const int v : free) {
    if (model_.end[search_at(v)] <= model_.begin[search_at(v)]) continue;
    const double usage = model_.usage[model_.offset[search_at(v)] + search_at(now_.choices[search_at(v)])];
    change_[search_at(model_.begin[search_at(v)])] += usage;
    change_[search_at(model_.end[search_at(v)])] -= usage;
  }
}

// Sets rest_ to what all other variables use.
void LocalSearch::take_out(const std::vector<int>& free) {
  add_changes(free);
  double sum = 0;
  for (std::size_t t = search_at(from_); t < search_at(to_); ++t) {
    sum += change_[t];
    rest_[t] = now_.use[t] - sum;
  }
}

// Accepts the choices of the free variables.
void LocalSearch::put_back(const std::vector<int>& free, const Score& before, const Score& after) {
  add_changes(free);
  double sum = 0;
  for (std::size_t t = search_at(from_); t < search_at(to_); ++t) {
    sum += change_[t];
    now_.use[t] = rest_[t] + sum;
  }
  now_.score.cost += after.cost - before.cost;
  now_.score.over += after.over - before.over;
  now_.score.forbidden += after.forbidden - before.forbidden;
  if (after.forbidden != before.forbidden) faults_of_ = -1;
  note_result();
}

void LocalSearch::note_result() {
  if (now_.score.over < 1) now_.score.over = 0;  // bytes are whole numbers
  if (!now_.score.is_feasible() || (best_ && best_cost_ <= now_.score.cost)) return;
  best_ = now_.choices;
  best_cost_ = now_.score.cost;
}

// The part of the score that depends on the free variables, and the point that is most above its room.
Score LocalSearch::score_of(const std::vector<int>& free, int& worst) {
  Score out;
  for (const int v : free) {
    out.cost += model_.cost[model_.offset[search_at(v)] + search_at(now_.choices[search_at(v)])];
    for (const int e : model_.edges_of[search_at(v)]) {
      const ModelEdge& edge = model_.edges[search_at(e)];
      const int other = end_opposite(edge, v);
      if (other < v && is_in_[search_at(other)] != 0) continue;  // counted there
      const double pair = model_.row(edge, v, now_.choices[search_at(v)])[now_.choices[search_at(other)]];
      if (is_never(pair))
        ++out.forbidden;
      else
        out.cost += pair;
    }
  }
  add_changes(free);
  double sum = 0;
  double most = 0;
  worst = -1;
  for (std::size_t t = search_at(from_); t < search_at(to_); ++t) {
    sum += change_[t];
    const double over = rest_[t] + sum - model_.room[t];
    if (over <= 0) continue;
    out.over += over;
    if (over > most) {
      most = over;
      worst = static_cast<int>(t);
    }
  }
  return out;
}

std::int64_t LocalSearch::improve(const std::vector<int>& variables, std::size_t largest) {
  Elimination elimination(model_, variables, places_, largest, random_() | 1);
  const std::vector<int>& free = elimination.free();
  if (free.empty()) return 1000;
  for (const int v : free) is_in_[search_at(v)] = 1;
  find_span(free);
  take_out(free);
  int worst = -1;
  const Score before = score_of(free, worst);
  if (worst >= 0) worst_ = worst;
  Score best = before;
  std::vector<int> old;
  for (const int v : free) old.push_back(now_.choices[search_at(v)]);
  std::vector<int> kept = old;
  std::int64_t work = static_cast<std::int64_t>(variables.size()) * kWorkPerVariable;
  double scale = 1;
  extra_.clear();
  double extra = std::max(0.1 * prices_.of(0, model_.points()), over_weight_);
  if (worst >= 0) extra_.emplace_back(worst, over_weight_);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    charge(free, scale);
    elimination.minimize(costs_, now_.choices);
    const Score after = score_of(free, worst);
    work += elimination.work() + 2 * static_cast<std::int64_t>(to_ - from_);
    if (value(after) < value(best) || (attempt == 0 && value(after) <= value(best))) {
      best = after;
      for (std::size_t i = 0; i < free.size(); ++i) kept[i] = now_.choices[search_at(free[i])];
    }
    if (from_ == to_) break;
    if (worst >= 0) {
      extra_.emplace_back(worst, extra);
      extra *= 3;
      scale *= 1.4;
    } else {
      scale *= 0.6;
      for (auto& [point, more] : extra_) more *= 0.3;
    }
  }
  for (std::size_t i = 0; i < free.size(); ++i) now_.choices[search_at(free[i])] = kept[i];
  if (kept != old) put_back(free, before, best);
  for (const int v : free) is_in_[search_at(v)] = 0;
  return work;
}

}  // namespace tessera::solver
