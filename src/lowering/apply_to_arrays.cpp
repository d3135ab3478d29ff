// SPDX-License-Identifier: Apache-2.0
#include "apply_to_arrays.h"

#include "tessera/ops/structural.h"

namespace tessera {

std::vector<Value> apply_to_arrays(Builder& into, const Computation& scalars, const std::vector<Id>& roots,
                                   const std::vector<Value>& arguments, const Dims& dims, const NotesRef& notes) {
  std::vector<bool> is_needed(scalars.instructions.size(), false);
  for (const Id root : roots) at(is_needed, root) = true;
  for (Id id = scalars.size() - 1; id >= 0; --id)
    for (const Id operand : scalars[id].operands)
      if (at(is_needed, id)) at(is_needed, operand) = true;
  std::vector<Value> made(scalars.instructions.size());
  for (Id id = 0; id < scalars.size(); ++id) {
    const Instruction& instruction = scalars[id];
    if (!at(is_needed, id)) continue;
    Value& out = at(made, id);
    if (instruction.op->role == Role::kParameter) {
      out = at(arguments, attributes_as<ParameterAttributes>(instruction.attributes).number);
    } else if (instruction.op->role == Role::kConstant) {
      out = ops::splat(ops::constant(into, attributes_as<ConstantAttributes>(instruction.attributes).value), dims);
    } else {
      std::vector<Value> operands;
      for (const Id operand : instruction.operands) operands.push_back(at(made, operand));
      out = into.emit(*instruction.op, operands, instruction.attributes,
                      {.type = Type::array(instruction.type.dtype(), dims), .notes = notes});
    }
  }
  std::vector<Value> out;
  for (const Id root : roots) out.push_back(at(made, root));
  return out;
}

}  // namespace tessera
