// SPDX-License-Identifier: Apache-2.0
#include "tessera/passes/loop_state.h"

#include "tessera/ops/structural.h"

namespace tessera {

std::optional<std::int64_t> state_element(const Computation& computation, Id id) {
  const Instruction& instruction = computation[id];
  if (instruction.op->role != Role::kGetTupleElement) return std::nullopt;
  if (computation[instruction.operands.front()].op->role != Role::kParameter) return std::nullopt;
  return attributes_as<IndexAttributes>(instruction.attributes).index;
}

bool reads_only_elements(const Computation& computation) {
  if (computation.parameters.size() != 1 || computation.root == computation.parameters.front()) return false;
  for (const Instruction& instruction : computation.instructions)
    for (const Id operand : instruction.operands)
      if (operand == computation.parameters.front() && instruction.op->role != Role::kGetTupleElement) return false;
  return true;
}

std::vector<int> call_counts(const Program& program) {
  std::vector<int> out(program.computations.size(), 0);
  for (const ComputationRef& computation : program.computations)
    for (const Instruction& instruction : computation->instructions)
      for (const ComputationId callee : instruction.called) ++at(out, callee);
  return out;
}

Value element_of(Value tuple, std::int64_t i) {
  const Instruction& instruction = tuple.instruction();
  if (instruction.op->role == Role::kTuple) return tuple.builder->value(at(instruction.operands, i));
  return ops::get_tuple_element(tuple, static_cast<int>(i));
}

Value clone_into(ComputationRewriter& r, const Instruction& instruction, const std::vector<Value>& operands) {
  Instruction copy = instruction;
  copy.operands.clear();
  for (const Value& operand : operands) copy.operands.push_back(operand.id);
  for (ComputationId& callee : copy.called) callee = r.callee(callee);
  copy.control_predecessors.clear();
  copy.sharding = nullptr;
  return r.builder().append(std::move(copy));
}

Value compute_from_state(ComputationRewriter& r, const Computation& body, Id id, const std::vector<Value>& state,
                         std::map<Id, Value>& made) {
  if (const auto found = made.find(id); found != made.end()) return found->second;
  if (const auto element = state_element(body, id)) return at(state, *element);
  std::vector<Value> operands;
  for (const Id operand : body[id].operands) operands.push_back(compute_from_state(r, body, operand, state, made));
  const Value value = clone_into(r, body[id], operands);
  made.emplace(id, value);
  return value;
}

}  // namespace tessera
