// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "plain.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

// What runs elsewhere, waits or is waited for stays a call; so does a tuple with shardings of its own.
bool can_be_inlined(const Program& program, const Computation& computation, Id id) {
  const Instruction& call = computation[id];
  if (call.op->role != Role::kCall || !call.control_predecessors.empty()) return false;
  if (!program[call.called.front()].execution_thread.empty()) return false;
  const auto has_own_sharding = [](const Instruction& i) { return i.sharding && !i.type.is_array(); };
  const Computation& callee = program[call.called.front()];
  if (has_own_sharding(call) || std::any_of(callee.parameters.begin(), callee.parameters.end(),
                                            [&](Id parameter) { return has_own_sharding(callee[parameter]); }))
    return false;
  return std::none_of(computation.instructions.begin(), computation.instructions.end(), [&](const Instruction& other) {
    return std::find(other.control_predecessors.begin(), other.control_predecessors.end(), id) !=
           other.control_predecessors.end();
  });
}

// A parameter's or the call's annotation, kept as a mark.
Value marked(Value value, const ShardingRef& sharding) {
  if (!sharding || !says_something(sharding->front())) return value;
  return ops::sharding_mark(value, sharding->front());
}

Value inlined(ComputationRewriter& r, Id id) {
  const Instruction& call = r.from()[id];
  const ComputationRef callee = at(r.builder().program().program().computations, r.callee(call.called.front()));
  std::vector<Value> values(callee->instructions.size());
  for (std::size_t k = 0; k < callee->parameters.size(); ++k)
    at(values, callee->parameters[k]) = marked(r.mapped(call.operands[k]), (*callee)[callee->parameters[k]].sharding);
  for (Id inner = 0; inner < callee->size(); ++inner) {
    Instruction copy = (*callee)[inner];
    if (copy.op->role == Role::kParameter) continue;
    for (Id& operand : copy.operands) operand = at(values, operand).id;
    for (Id& before : copy.control_predecessors) before = at(values, before).id;
    at(values, inner) = r.builder().append(std::move(copy));
  }
  return marked(at(values, callee->root), call.sharding);
}

}  // namespace

Program inline_calls(const Program& program) {
  const auto touches = [&](const Computation& computation) {
    for (Id id = 0; id < computation.size(); ++id)
      if (can_be_inlined(program, computation, id)) return true;
    return false;
  };
  const bool any = std::any_of(program.computations.begin(), program.computations.end(),
                               [&](const ComputationRef& c) { return touches(*c); });
  if (!any) return program;
  return remove_dead_code(rewrite(
      program,
      [&](ComputationRewriter& r, Id id) { return can_be_inlined(program, r.from(), id) ? inlined(r, id) : Value{}; },
      touches));
}

}  // namespace tessera
