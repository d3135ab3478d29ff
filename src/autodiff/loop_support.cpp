// SPDX-License-Identifier: Apache-2.0
#include "loop_support.h"

#include "tessera/ops/structural.h"

namespace tessera::autodiff {

bool reads_tuple(const Computation& computation, const Instruction& instruction) {
  return instruction.op->role == Role::kGetTupleElement &&
         computation[instruction.operands[0]].op->role == Role::kTuple;
}

Id element_read(const Computation& computation, const Instruction& instruction) {
  return at(computation[instruction.operands[0]].operands,
            attributes_as<IndexAttributes>(instruction.attributes).index);
}

bool passes_on(const Computation& body, int e) {
  Id id = at(body[body.root].operands, e);
  while (reads_tuple(body, body[id])) id = element_read(body, body[id]);
  const Instruction& next = body[id];
  return next.op->role == Role::kGetTupleElement && body[next.operands[0]].op->role == Role::kParameter &&
         attributes_as<IndexAttributes>(next.attributes).index == e;
}

}  // namespace tessera::autodiff
