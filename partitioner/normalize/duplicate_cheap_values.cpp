// SPDX-License-Identifier: Apache-2.0
#include "normalize/duplicate_cheap_values.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "pipeline/origins.h"
#include "propagation/propagate.h"
#include "tessera/base/text.h"
#include "tessera/ir/builder.h"

namespace tessera {

bool is_rematerializable(const Computation& computation, const Instruction& instruction) {
  return instruction.op->rematerializable && instruction.type.is_array() &&
         std::all_of(instruction.operands.begin(), instruction.operands.end(), [&](Id operand) {
           const Instruction& scalar = computation[operand];
           return scalar.type.is_array() && scalar.type.ndim() == 0 &&
                  !(scalar.sharding && scalar.sharding->front().is_partial());
         });
}

namespace {

using IsDuplicated = std::function<bool(const Computation& computation, const Instruction& value)>;

Computation with_duplicated_values(const Computation& from, ProgramBuilder& program,
                                   const IsDuplicated& is_duplicated) {
  Builder builder = program.computation(from.name);
  std::vector<Id> new_ids(from.instructions.size(), -1);
  std::vector<char> is_used(from.instructions.size(), 0);
  const auto own = [&](Id operand) {
    const Instruction& value = from[operand];
    const bool again = std::exchange(at(is_used, operand), 1) != 0;
    if (!again || !is_duplicated(from, value)) return at(new_ids, operand);
    Instruction copy = builder[at(new_ids, operand)];
    copy.notes = with_frontend_attribute(copy.notes, kOriginAttribute, annotatable_name(value));
    return builder.append(std::move(copy)).id;
  };
  at(is_used, from.root) = 1;
  for (Id id = 0; id < from.size(); ++id) {
    Instruction copy = from[id];
    for (Id& operand : copy.operands) operand = own(operand);
    for (Id& before : copy.control_predecessors) before = at(new_ids, before);
    at(new_ids, id) = builder.append(std::move(copy)).id;
  }
  const Value root = builder.value(at(new_ids, from.root));
  return std::move(builder).finish(root);
}

Program duplicate_where(const Program& program, const IsDuplicated& is_duplicated) {
  ProgramBuilder names("");
  return with_rewritten(program, is_duplicated,
                        [&](ComputationId c) { return with_duplicated_values(program[c], names, is_duplicated); });
}

bool is_splat(const Computation& computation, const Instruction& value) {
  return is_rematerializable(computation, value) && value.type.ndim() > 0;
}

}  // namespace

Program duplicate_cheap_values(const Program& program) {
  return duplicate_where(program, [](const Computation& computation, const Instruction& value) {
    return !value.sharding && is_splat(computation, value);
  });
}

Program with_duplicated_splats(const Program& program) {
  return without_origins(duplicate_where(program, [](const Computation& computation, const Instruction& value) {
    return value.op->role != Role::kConstant && is_splat(computation, value);
  }));
}

std::vector<bool> rematerialized_operands(const Computation& computation, const Instruction& instruction) {
  std::vector<bool> out;
  for (const Id operand : instruction.operands) {
    const Instruction& made = computation[operand];
    out.insert(out.end(), static_cast<std::size_t>(made.type.leaf_count()), is_rematerializable(computation, made));
  }
  return out;
}

}  // namespace tessera
