// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "propagation/propagate.h"
#include "tessera/ir/op_def.h"

namespace tessera {

std::vector<bool> partitioned_computations(const Program& program) {
  std::vector<bool> used(program.computations.size(), false);
  at(used, program.entry) = true;
  for (ComputationId c = isize(program.computations) - 1; c >= 0; --c) {  // callers follow their callees
    if (!at(used, c)) continue;
    for (const auto& instruction : program[c].instructions) {
      const auto role = instruction.op->role;
      if (role != Role::kCall && role != Role::kWhile && role != Role::kConditional) continue;
      for (const ComputationId callee : instruction.called) at(used, callee) = true;
    }
  }
  return used;
}

Program with_rewritten(const Program& program,
                       const std::function<bool(const Computation&, const Instruction&)>& concerns,
                       const std::function<Computation(ComputationId)>& made) {
  const auto used = partitioned_computations(program);
  Program out = program;
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    const auto& all = program[c].instructions;
    const auto is_concerned = [&](const Instruction& i) { return concerns(program[c], i); };
    if (at(used, c) && std::any_of(all.begin(), all.end(), is_concerned))
      at(out.computations, c) = std::make_shared<const Computation>(made(c));
  }
  return out;
}

ComputationRef with_new_callees(const ComputationRef& computation, const std::vector<ComputationId>& new_ids) {
  const auto& all = computation->instructions;
  const bool is_same = std::all_of(all.begin(), all.end(), [&](const Instruction& instruction) {
    return std::all_of(instruction.called.begin(), instruction.called.end(),
                       [&](ComputationId called) { return at(new_ids, called) == called; });
  });
  if (is_same) return computation;
  auto copy = std::make_shared<Computation>(*computation);
  for (auto& instruction : copy->instructions)
    for (auto& called : instruction.called) called = at(new_ids, called);
  return copy;
}

}  // namespace tessera
