// SPDX-License-Identifier: Apache-2.0
// Rebuilding computations: what a pass does not touch is kept at the price of a copied record, what it replaces is
// mapped.
//
//   Program out = rewrite(program, [](ComputationRewriter& r, Id id) -> Value {
//     if (r.from()[id].op->role != Role::kCopy) return {};          // keep
//     return r.mapped(r.from()[id].operands[0]);                    // replace by what the operand has become
//   });
#pragma once

#include <functional>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// One computation on its way to its new form. Its parameters are there from the start; instructions come in order.
class ComputationRewriter {
 public:
  /// `callees` maps old computation ids to new ones.
  ComputationRewriter(ProgramBuilder& program, const Computation& from, const std::vector<ComputationId>& callees);

  [[nodiscard]] const Computation& from() const { return from_; }
  [[nodiscard]] Builder& builder() { return builder_; }
  /// What an old value has become. InternalError before it was kept or replaced.
  [[nodiscard]] Value mapped(Id old);
  [[nodiscard]] std::vector<Value> mapped(const std::vector<Id>& old);
  [[nodiscard]] ComputationId callee(ComputationId old) const { return at(callees_, old); }

  /// The old instruction with its operands, control predecessors and callees in new ids.
  [[nodiscard]] Instruction translated(Id old);
  /// Appends it.
  Value keep(Id old);
  void replace(Id old, Value with);
  /// Ends it, with what the old root has become.
  ComputationId finish();

 private:
  ProgramBuilder& program_;
  const Computation& from_;
  const std::vector<ComputationId>& callees_;
  Builder builder_;
  std::vector<Id> new_ids_;
};

/// What becomes of an instruction; a null Value keeps it.
using RewriteRule = std::function<Value(ComputationRewriter&, Id)>;
/// Applies the rule to every instruction but parameters, callees first. Computations for which `touches` is false are
/// shared.
Program rewrite(const Program& program, const RewriteRule& rule,
                const std::function<bool(const Computation&)>& touches = nullptr);

/// Keeps or replaces the instructions of one computation, in an order of its own: at least what the root needs, and side effects.
using ComputationRule = std::function<void(ComputationRewriter&)>;
/// The same by whole computations. Those that the rule does not touch are shared where their callees stay what they are.
Program rewrite_computations(const Program& program, const ComputationRule& rule,
                             const std::function<bool(const Computation&)>& touches = nullptr);

}  // namespace tessera
