// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "marks.h"
#include "tessera/ir/op_def.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {

namespace {

using ExpandedForm = Value (*)(const OpView&, const std::vector<Value>&);

// Replaces every op whose row has a form.
Program with_forms(const Program& program, ExpandedForm OpDef::*form) {
  const auto expands = [&](const Instruction& i) { return i.op->*form != nullptr && i.control_predecessors.empty(); };
  const auto touches = [&](const Computation& c) {
    return std::any_of(c.instructions.begin(), c.instructions.end(), expands);
  };
  const auto rule = [&](ComputationRewriter& r, Id id) {
    const Instruction& instruction = r.from()[id];
    if (!expands(instruction)) return Value{};
    const ExpandedForm expand = instruction.op->*form;
    const Value value = expand(view_of(program, r.from(), instruction), r.mapped(instruction.operands));
    return marked(value, instruction.sharding);
  };
  const bool any = std::any_of(program.computations.begin(), program.computations.end(),
                               [&](const ComputationRef& c) { return touches(*c); });
  return any ? rewrite(program, rule, touches) : program;
}

}  // namespace

Program expand_ops(const Program& program) { return with_forms(program, &OpDef::expand); }
Program in_ops_of_hlo(const Program& program) { return with_forms(program, &OpDef::hlo_form); }

}  // namespace tessera
