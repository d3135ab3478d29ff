// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "marks.h"
#include "tessera/ir/op_def.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {

Program expand_ops(const Program& program) {
  const auto expands = [](const Instruction& i) { return i.op->expand != nullptr && i.control_predecessors.empty(); };
  const auto touches = [&](const Computation& c) {
    return std::any_of(c.instructions.begin(), c.instructions.end(), expands);
  };
  const auto rule = [&](ComputationRewriter& r, Id id) {
    const Instruction& instruction = r.from()[id];
    if (!expands(instruction)) return Value{};
    const Value value = instruction.op->expand(view_of(program, r.from(), instruction), r.mapped(instruction.operands));
    return marked(value, instruction.sharding);
  };
  const bool any = std::any_of(program.computations.begin(), program.computations.end(),
                               [&](const ComputationRef& c) { return touches(*c); });
  return any ? rewrite(program, rule, touches) : program;
}

}  // namespace tessera
