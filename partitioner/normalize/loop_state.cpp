// SPDX-License-Identifier: Apache-2.0
// The state of a loop has one sharding: the while and the parameters of its body and condition are one value. If
// several of them are annotated, the annotation of the while counts, else that of the body.
#include "normalize/loop_state.h"

#include <map>

#include "tessera/ir/op_def.h"

namespace tessera {

Program with_one_loop_state(const Program& program) {
  std::map<ComputationId, Id> dropped;  // computations whose parameter loses its sharding
  const auto parameter_of = [&](ComputationId callee) -> const Instruction& {
    return program[callee][program[callee].parameters.front()];
  };
  for (const auto& computation : program.computations)
    for (const Instruction& loop : computation->instructions) {
      if (loop.op->role != Role::kWhile) continue;
      const ComputationId condition = loop.called[0];
      const ComputationId body = loop.called[1];
      if (loop.sharding && parameter_of(body).sharding) dropped[body] = program[body].parameters.front();
      if ((loop.sharding || parameter_of(body).sharding) && parameter_of(condition).sharding)
        dropped[condition] = program[condition].parameters.front();
    }
  if (dropped.empty()) return program;
  Program out = program;
  for (const auto& [callee, parameter] : dropped) {
    Computation changed = program[callee];
    at(changed.instructions, parameter).sharding = nullptr;
    at(out.computations, callee) = std::make_shared<const Computation>(std::move(changed));
  }
  return out;
}

}  // namespace tessera
