// SPDX-License-Identifier: Apache-2.0
// The solver of decision graphs. docs/internals/solver.md describes its phases.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/partitioner/solver/problem.h"

namespace tessera::solver {

/// How much the solver may do. The same budget without `seconds` gives the same result on every machine.
struct Budget {
  /// Work in entries of cost tables that are read, over all phases. The reductions always run. 0: only as much as a
  /// first solution needs.
  std::int64_t work = 2'000'000'000;
  /// Also stops at this wall time, counted from the call. The result then depends on the speed of the machine.
  std::optional<double> seconds;
  /// Threads of the search. The result for a given number of threads is the same in each run.
  int threads = 1;
};

struct Solution {
  std::vector<std::int32_t> choices;  // one per node
  std::int64_t cost = 0;              // of these choices
  /// No feasible assignment costs less. Equal to `cost` if the solution is proven to be optimal.
  std::int64_t lower_bound = 0;
  std::int64_t peak = 0;  // bytes
  std::int64_t work = 0;  // that was done

  [[nodiscard]] bool is_optimal() const { return lower_bound == cost; }
  /// (cost - lower_bound) / cost; 0 if the cost is 0.
  [[nodiscard]] double gap() const;
};

/// Finds an assignment of least cost that keeps the memory limit and uses nothing forbidden, as far as the budget
/// allows, and a bound on the least cost. The bounds are computed in doubles and rounded down by the possible error.
/// Errors: the problem is not well formed; the least usages at some time exceed the limit (with the time and the
/// bytes); each combination is forbidden; no feasible assignment was found within the budget (with the time and the
/// bytes of the nearest one).
Solution solve(const Problem& problem, const Budget& budget = {});

}  // namespace tessera::solver
