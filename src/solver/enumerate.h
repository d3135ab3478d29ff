// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "graph/assignment.h"

namespace tessera::solver {

struct Enumeration {
  bool is_complete = false;  // false: it was stopped, and nothing is known
  std::optional<Choices> best;
};

/// Searches all assignments of a small model depth first, without those that cost more than the best one so far or
/// do not fit. Stops after `steps` choices.
Enumeration enumerate(const Model& model, std::int64_t steps);

}  // namespace tessera::solver
