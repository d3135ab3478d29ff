// SPDX-License-Identifier: Apache-2.0
// Changes what an evaluation rounds: sums and elementwise results come out a little larger or smaller, as they do in another order.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/ops/evaluate.h"

namespace tessera {

/// Runs 0 and 1 form a pair, and so do 2 and 3: one moves every number as far up as the other moves it down. A number whose exact value is
/// 0 thus has each sign in one of the two.
inline constexpr int kChangedRuns = 4;

class RoundingChanges {
 public:
  /// `amount`: the most a number moves, as a share of its value; 0: two units of its type. Numbers of a type with larger units do not move.
  RoundingChanges(const Program& program, double amount);

  /// Changes the results of one run.
  void apply(const EvaluatedStep& step, int run, std::size_t device, std::vector<Literal>& results) const;
  /// For all runs together, which are the devices of an evaluation in lockstep. Run 2 gets 0 in place of every number whose sign the
  /// first pair leaves open, as another order of the sum may give exactly 0: the root of it is then no NaN.
  void apply_to_all(const EvaluatedStep& step, std::vector<Literal>& results) const;

 private:
  [[nodiscard]] bool rounds(const EvaluatedStep& step) const;

  double amount_;
  std::unordered_map<const Computation*, std::vector<bool>> rounding_;  // by instruction, of what runs in step
};

}  // namespace tessera
