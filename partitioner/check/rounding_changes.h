// SPDX-License-Identifier: Apache-2.0
// Changes the values that an evaluation rounds: sums and elementwise results become slightly larger or smaller, as in
// another order.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tessera/ir/op_def.h"
#include "tessera/ir/program.h"
#include "tessera/ops/evaluate.h"

namespace tessera {

/// Runs 0 and 1 form a pair, and so do 2 and 3: one increases the numbers that the other decreases. A number whose
/// exact value is 0 thus has each sign in one of the two. The changes of run 1 are half as large as those of run 0.
inline constexpr int kChangedRuns = 4;

/// How the evaluated program rounds.
struct RoundingModel {
  /// The largest relative change of a number; 0 means two units in the last place of its type. Numbers of types with
  /// larger units do not change.
  double amount = 0;
  /// A number is noise if it is at most `noise` times its change. Another order of a sum may turn noise into exactly 0.
  double noise = 1;
  /// Numbers that end in many zero bits were not rounded and do not change: sums of f32 inputs in double precision are
  /// equal in each order. Only for programs in double precision that round to no other type.
  bool trusts_zero_bits = false;
  /// The change of a sum is relative to its partial sums instead of its result, which may be much smaller.
  bool rounds_partial_sums = false;
};

class RoundingChanges {
 public:
  /// `round`: each round of kChangedRuns runs draws other changes.
  RoundingChanges(const Program& program, const RoundingModel& model, int round);

  /// Changes the results of one run.
  void apply(const EvaluatedStep& step, int run, std::size_t device, std::vector<Literal>& results) const;
  /// For all runs together, as the devices of an evaluation in lockstep; device kChangedRuns is the unchanged run. In
  /// the second pair, numbers that are noise also become 0, because another order of the sum may give exactly 0. The
  /// square root of such a number is then 0 instead of NaN, and a quotient of two such numbers is NaN. Run 2 of round 0
  /// gets 0 for all of them, other runs for a random half.
  void apply_to_all(const EvaluatedStep& step, std::vector<Literal>& results) const;

 private:
  [[nodiscard]] bool rounds(const EvaluatedStep& step) const;
  [[nodiscard]] std::size_t seed_of(const EvaluatedStep& step, int pair) const;
  /// `drawn_from`: the result whose numbers determine the random ones.
  void change(const EvaluatedStep& step, int run, std::size_t device, const Literal& drawn_from, Literal& result) const;
  void set_noise_to_zero(const EvaluatedStep& step, int run, std::vector<Literal>& results) const;

  RoundingModel model_;
  int round_;
  std::unordered_map<const Computation*, std::vector<bool>> rounding_;  // by instruction
  std::unordered_map<const Instruction*, OpView> sums_;                 // if the model rounds partial sums
};

}  // namespace tessera
