// SPDX-License-Identifier: Apache-2.0
#include "tessera/solver/solve.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "enumerate.h"
#include "graph/reduce.h"
#include "search_rounds.h"
#include "tessera/base/error.h"

namespace tessera::solver {
namespace {

constexpr std::int64_t kEnumerated = 200'000;   // choices that an enumeration may try
constexpr int kMostEnumerated = 40;             // variables of a model that is enumerated
constexpr std::size_t kLargestExact = 1 << 22;  // entries of a table of an exact elimination
constexpr double kRelativeError = 1e-9;         // of a bound, from rounding
// If no assignment within a limit was found, the next limit is what the nearest one needs, but it rises by these shares.
constexpr double kLeastRaise = 0.02;  // at first; doubled with each limit
constexpr double kMostRaise = 0.06;
// The part of the work for the sum of the least usages: that search mostly only shows the nearest assignment.
constexpr int kEstimate = 4;

/// What is known about the model.
struct Result {
  std::optional<Choices> choices;
  double bound = 0;
  bool is_exact = false;        // the choices are the best ones; without choices, none keep the limit
  bool reaches_cutoff = false;  // no choices cost less than the cutoff
  std::int64_t work = 0;
  std::int64_t nearest_time = 0;  // if there are no choices: where the best try exceeds the limit, and by how much
  double nearest_over = 0;
};

// Solves the model without the memory limit, if its tree decomposition is narrow. That is the answer if it fits.
bool solve_without_limit(const Model& model, const Budget& budget, Result& out) {
  std::vector<int> all(model.size.size());
  std::iota(all.begin(), all.end(), 0);
  Places places(model);
  Elimination elimination(model, all, places, kLargestExact);
  if (!elimination.held().empty() || elimination.work() > budget.work / 4) return false;
  Choices choices(all.size(), 0);
  elimination.minimize(model.cost, choices);
  out.work += elimination.work();
  const Assignment found(model, choices);
  require(found.score.forbidden == 0, "each combination of choices is forbidden");
  if (!found.score.is_feasible()) return false;
  out.choices = std::move(choices);
  out.is_exact = true;
  return true;
}

bool solve_by_enumeration(const Model& model, Result& out) {
  if (model.count() > kMostEnumerated) return false;
  Enumeration found = enumerate(model, kEnumerated);
  out.work += kEnumerated;
  if (!found.is_complete) return false;
  out.choices = std::move(found.best);
  out.is_exact = true;
  return true;
}

void search(const Model& model, const Budget& budget, const Clock& clock, Result& out) {
  SearchRounds rounds(model, budget, clock, out.work);
  rounds.run();
  out.work = rounds.work();
  out.is_exact = rounds.is_infeasible();
  out.reaches_cutoff = rounds.reaches_cutoff();
  if (out.is_exact || out.reaches_cutoff) return;
  out.bound = rounds.bound();
  out.choices = rounds.best();
  if (out.choices) return;
  const Assignment& nearest = rounds.nearest();
  for (std::size_t t = 0; t < nearest.use.size(); ++t)
    if (nearest.use[t] - model.room[t] > out.nearest_over) {
      out.nearest_over = nearest.use[t] - model.room[t];
      out.nearest_time = model.time[t];
    }
}

// The largest integer that is surely not above the least cost.
std::int64_t rounded_down(double bound, std::int64_t cost) {
  const double sure = std::ceil(bound - kRelativeError * std::fabs(bound) - 1e-6);
  return std::clamp(static_cast<std::int64_t>(std::max(0.0, std::min(sure, 9e18))), std::int64_t{0}, cost);
}

struct Attempt {
  Reduced reduced;
  Result result;
};

Attempt attempt(const Problem& problem, const Budget& budget) {
  const Clock clock;
  check(problem);
  require(budget.work >= 0 && budget.threads >= 1,
          "a budget needs work of at least 0 and at least 1 thread, not {} and {}", budget.work, budget.threads);
  Attempt out{reduce(problem), {}};
  Result& result = out.result;
  const Model& model = out.reduced.model;
  result.work = out.reduced.work;
  if (!solve_without_limit(model, budget, result) && !solve_by_enumeration(model, result))
    search(model, budget, clock, result);
  return out;
}

Solution solution_of(const Problem& problem, const Attempt& attempt) {
  const Result& result = attempt.result;
  Solution out;
  out.choices = attempt.reduced.extend(*result.choices);
  const Evaluation checked = evaluate(problem, out.choices);
  ensure(checked.is_feasible(problem), "{}: the solver returns an assignment that is not feasible", problem.name);
  out.cost = checked.cost;
  out.peak = checked.peak;
  out.lower_bound = result.is_exact ? out.cost : rounded_down(result.bound, out.cost);
  out.work = result.work;
  return out;
}

}  // namespace

double Solution::gap() const {
  return cost == 0 ? 0 : static_cast<double>(cost - lower_bound) / static_cast<double>(cost);
}

std::optional<Solution> solve_if_feasible(const Problem& problem, const Budget& budget) {
  const Attempt tried = attempt(problem, budget);
  if (!tried.result.choices) return std::nullopt;
  return solution_of(problem, tried);
}

std::optional<Solution> solve_within(const Problem& problem, std::int64_t memory_limit, const Budget& budget,
                                     std::int64_t highest_limit) {
  Problem limited = problem;
  const std::int64_t first = std::max(memory_limit, least_peak(problem));
  double raise = kLeastRaise;
  for (std::int64_t limit = first; limit <= std::max(first, highest_limit); raise *= 2) {
    limited.memory_limit = limit;
    Budget part = budget;
    if (limit == first && limit > memory_limit) part.work /= kEstimate;
    const Attempt tried = attempt(limited, part);
    if (tried.result.choices) return solution_of(limited, tried);
    if (tried.result.reaches_cutoff) break;
    const auto now = static_cast<double>(limit);
    const double more = std::clamp(tried.result.nearest_over, raise * now, std::max(raise, kMostRaise) * now);
    limit += static_cast<std::int64_t>(std::ceil(std::clamp(more, 1.0, 9e18 - now)));
  }
  return std::nullopt;
}

Solution solve(const Problem& problem, const Budget& budget) {
  const Attempt tried = attempt(problem, budget);
  const Result& result = tried.result;
  const std::int64_t limit = problem.memory_limit.value_or(0);
  require(!result.reaches_cutoff, "{}: no assignment that keeps the memory limit of {} bytes costs less than {}",
          problem.name, limit, budget.cutoff.value_or(0));
  require(result.choices || !result.is_exact, "{}: no assignment that is allowed keeps the memory limit of {} bytes",
          problem.name, limit);
  require(result.choices.has_value(),
          "{}: found no assignment that keeps the memory limit of {} bytes; the nearest exceeds it by {:.0f} bytes at "
          "time {}",
          problem.name, limit, result.nearest_over, result.nearest_time);
  return solution_of(problem, tried);
}

}  // namespace tessera::solver
