// SPDX-License-Identifier: Apache-2.0
// Changes the values that an evaluation rounds: sums and elementwise results become slightly larger or smaller, as in
// another order.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/ops/evaluate.h"

namespace tessera {

/// Runs 0 and 1 form a pair, and so do 2 and 3: one increases every number by the amount by which the other decreases
/// it. A number whose exact value is 0 thus has each sign in one of the two.
inline constexpr int kChangedRuns = 4;

class RoundingChanges {
 public:
  /// `amount`: the largest relative change of a number; 0 means two units in the last place of its type. Numbers of
  /// types with larger units do not change.
  RoundingChanges(const Program& program, double amount);

  /// Changes the results of one run.
  void apply(const EvaluatedStep& step, int run, std::size_t device, std::vector<Literal>& results) const;
  /// For all runs together, as the devices of an evaluation in lockstep. Run 2 gets 0 for every number whose sign
  /// differs between the first two runs, because another order of the sum may give exactly 0. A square root of it is
  /// then no NaN.
  void apply_to_all(const EvaluatedStep& step, std::vector<Literal>& results) const;

 private:
  [[nodiscard]] bool rounds(const EvaluatedStep& step) const;

  double amount_;
  std::unordered_map<const Computation*, std::vector<bool>> rounding_;  // by instruction
};

}  // namespace tessera
