// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/solver/problem.h"

namespace tessera::solver {

/// The times that can decide whether an assignment keeps the memory limit.
struct Timeline {
  std::vector<std::int64_t> time;  // ascending
  std::vector<double> room;        // limit minus the least usages
  /// The points in [begin, end) of a node are [first(begin), first(end)).
  [[nodiscard]] int first(std::int64_t from) const;
};

/// Finds the times at which a largest set of nodes is alive and `most` usages exceed the limit; `least` and `most` are
/// the usages per node. Error if the least usages exceed the limit at a time.
Timeline find_timeline(const Problem& problem, const std::vector<std::int64_t>& least,
                       const std::vector<std::int64_t>& most);

}  // namespace tessera::solver
