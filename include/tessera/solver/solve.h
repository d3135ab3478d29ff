// SPDX-License-Identifier: Apache-2.0
// The solver of decision graphs. src/solver/README.md describes its phases.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/solver/problem.h"

namespace tessera::solver {

/// Limits for the solver. The same budget without `seconds` gives the same result on every machine.
struct Budget {
  /// The most entries of cost tables that all phases together may read. The reductions of the problem always run
  /// completely. 0: stops after the first solution.
  std::int64_t work = 2'000'000'000;
  /// Also stops this many seconds after the call. The result then depends on the speed of the machine.
  std::optional<double> seconds;
  /// The number of threads of the search. Without `seconds`, the result does not depend on it.
  int threads = 1;
  /// Stops when it is proven that no feasible assignment costs less than this. Then there may be no solution.
  std::optional<std::int64_t> cutoff{};
};

/// An allowed assignment, and a lower bound on the cost of every other one.
struct Solution {
  std::vector<std::int32_t> choices;  // one per node
  std::int64_t cost = 0;              // of these choices
  /// No feasible assignment costs less. Equal to `cost` if the solution is proven to be optimal.
  std::int64_t lower_bound = 0;
  std::int64_t peak = 0;  // bytes
  std::int64_t work = 0;  // entries of cost tables that were read

  [[nodiscard]] bool is_optimal() const { return lower_bound == cost; }
  /// (cost - lower_bound) / cost; 0 if the cost is 0.
  [[nodiscard]] double gap() const;
};

/// Finds an allowed assignment within the memory limit, with the least cost that the budget permits, and a lower bound
/// on the cost. The bound is computed in doubles and rounded down by the possible error. Errors: the problem is not
/// well formed; the least usages at some time exceed the limit (with the time and the bytes); each combination is
/// forbidden; no feasible assignment was found within the budget (with the time and the bytes of the nearest one); no
/// feasible assignment costs less than the cutoff.
Solution solve(const Problem& problem, const Budget& budget = {});
/// The same, but nullopt if no feasible assignment was found within the budget, or none costs less than the cutoff.
std::optional<Solution> solve_if_feasible(const Problem& problem, const Budget& budget = {});

/// The same with the limit `memory_limit` or, if that is less, least_peak(). If no feasible assignment is found, tries
/// larger limits, up to `highest_limit`. Nullopt if none is found within these.
std::optional<Solution> solve_within(const Problem& problem, std::int64_t memory_limit, const Budget& budget,
                                     std::int64_t highest_limit);

}  // namespace tessera::solver
