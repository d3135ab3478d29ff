// SPDX-License-Identifier: Apache-2.0
// The state of a loop has one sharding: the while and the parameters of its body and condition are one value. If
// several of them are annotated, the annotation of the while counts, else that of the body.
#include "normalize/loop_state.h"

#include <map>

#include "tessera/ir/op_def.h"

namespace tessera {
namespace {

using ValuePlace = std::pair<ComputationId, Id>;

ValuePlace parameter_of(const Program& program, ComputationId callee) {
  return {callee, program[callee].parameters.front()};
}

const ShardingRef& sharding_of(const Program& program, ValuePlace value) {
  return program[value.first][value.second].sharding;
}

// The shardings that change, by value.
std::map<ValuePlace, ShardingRef> changed_shardings(const Program& program) {
  std::map<ValuePlace, ShardingRef> out;
  for (ComputationId c = 0; c < isize(program.computations); ++c)
    for (Id id = 0; id < program[c].size(); ++id) {
      const Instruction& loop = program[c][id];
      if (loop.op->role != Role::kWhile) continue;
      const ValuePlace condition = parameter_of(program, loop.called[0]);
      const ValuePlace body = parameter_of(program, loop.called[1]);
      if (!loop.sharding) {
        const ShardingRef& of_body = sharding_of(program, body);
        if (const ShardingRef& found = of_body ? of_body : sharding_of(program, condition)) out[{c, id}] = found;
      }
      for (const ValuePlace& parameter : {condition, body})
        if (sharding_of(program, parameter)) out[parameter] = nullptr;
    }
  return out;
}

}  // namespace

Program with_one_loop_state(const Program& program) {
  Program out = program;
  for (const auto& [value, sharding] : changed_shardings(program)) {
    Computation changed = out[value.first];
    at(changed.instructions, value.second).sharding = sharding;
    at(out.computations, value.first) = std::make_shared<const Computation>(std::move(changed));
  }
  return out;
}

}  // namespace tessera
