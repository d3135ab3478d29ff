// SPDX-License-Identifier: Apache-2.0
// Rebuilds computations. Instructions that a pass does not change are copied; instructions that it replaces are
// mapped to new values.
//
//   Program out = rewrite(program, [](ComputationRewriter& r, Id id) -> Value {
//     if (r.from()[id].op->role != Role::kCopy) return {};          // keep
//     return r.mapped(r.from()[id].operands[0]);                    // replace by the new value of the operand
//   });
#pragma once

#include <functional>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// One computation while it is rebuilt. Its parameters exist from the start; instructions are added in order.
class ComputationRewriter {
 public:
  /// `callees` maps old computation ids to new ones.
  ComputationRewriter(ProgramBuilder& program, const Computation& from, const std::vector<ComputationId>& callees);

  [[nodiscard]] const Computation& from() const { return from_; }
  [[nodiscard]] Builder& builder() { return builder_; }
  /// The new value of an old value. InternalError if it was not kept or replaced yet.
  [[nodiscard]] Value mapped(Id old);
  [[nodiscard]] std::vector<Value> mapped(const std::vector<Id>& old);
  [[nodiscard]] ComputationId callee(ComputationId old) const { return at(callees_, old); }

  /// The old instruction, with the new ids of its operands, control predecessors and callees.
  [[nodiscard]] Instruction translated(Id old);
  /// Appends the translated instruction.
  Value keep(Id old);
  /// Makes `with` the new value of an old value.
  void replace(Id old, Value with);
  /// Ends the computation. The root is the new value of the old root.
  ComputationId finish();

 private:
  ProgramBuilder& program_;
  const Computation& from_;
  const std::vector<ComputationId>& callees_;
  Builder builder_;
  std::vector<Id> new_ids_;
};

/// Returns the replacement of an instruction; a null Value keeps the instruction.
using RewriteRule = std::function<Value(ComputationRewriter&, Id)>;
/// Applies the rule to every instruction except parameters, callees first. The result shares the computations for which
/// `touches` is false with `program`. New instructions without a sharding stay in the manual region of the instruction
/// that they replace.
Program rewrite(const Program& program, const RewriteRule& rule,
                const std::function<bool(const Computation&)>& touches = nullptr);

/// Keeps or replaces the instructions of one computation, in any order. It must handle at least the instructions that
/// the root depends on and those with side effects.
using ComputationRule = std::function<void(ComputationRewriter&)>;
/// The same with a rule for complete computations. A computation that the rule does not change is shared if its callees
/// do not change.
Program rewrite_computations(const Program& program, const ComputationRule& rule,
                             const std::function<bool(const Computation&)>& touches = nullptr);

}  // namespace tessera
