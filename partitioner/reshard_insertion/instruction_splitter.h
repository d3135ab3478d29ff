// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// Rewrites one computation such that some instructions are split into several.
class Splitter {
 public:
  Splitter(const Program& program, ComputationId id, ProgramBuilder& names)
      : program_(program),
        old_(program[id]),
        builder_(names.computation(old_.name)),
        new_ids_(old_.instructions.size()) {}

 protected:
  /// plan(old instruction): how to split it; false if it stays. split(instruction with new operands, plan): the
  /// replacement.
  template <class Plan, class Split>
  Computation run(const Plan& plan, const Split& split) {
    for (Id id = 0; id < old_.size(); ++id) {
      Instruction copy = old_[id];
      const auto how = plan(copy);
      for (Id& operand : copy.operands) operand = at(new_ids_, operand);
      for (Id& before : copy.control_predecessors) before = at(new_ids_, before);
      at(new_ids_, id) = how ? split(std::move(copy), *how) : builder_.append(std::move(copy)).id;
    }
    return std::move(builder_).finish(builder_.value(at(new_ids_, old_.root)));
  }

  const Program& program_;
  const Computation& old_;
  Builder builder_;

 private:
  std::vector<Id> new_ids_;
};

}  // namespace tessera
