// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "simplify/dead_code.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

Id stand_in(const StandIns& stand_ins, Id id) { return stand_ins.empty() ? id : at(stand_ins, id); }

// Returns the instructions that must stay: those that the root depends on, those with side effects, and the parameters.
std::vector<char> live_instructions(const Computation& computation, const std::vector<bool>& with_effects,
                                    const StandIns& stand_ins) {
  std::vector<char> live(computation.instructions.size(), 0);
  const Id root = stand_in(stand_ins, computation.root);
  for (Id id = computation.size() - 1; id >= 0; --id) {
    const auto& instruction = computation[id];
    const bool keep =
        id == root || instruction.op->role == Role::kParameter || has_side_effect(instruction, with_effects);
    if (!keep && at(live, id) == 0) continue;
    at(live, id) = 1;
    for (const Id operand : instruction.operands) at(live, stand_in(stand_ins, operand)) = 1;
    for (const Id before : instruction.control_predecessors) at(live, before) = 1;
  }
  return live;
}

ComputationRef without_dead(const ComputationRef& from, const std::vector<char>& live, const StandIns& stand_ins) {
  bool unchanged = true;
  for (Id id = 0; id < from->size() && unchanged; ++id) unchanged = at(live, id) != 0 && stand_in(stand_ins, id) == id;
  if (unchanged) return from;
  auto out = std::make_shared<Computation>();
  out->name = from->name;
  out->execution_thread = from->execution_thread;
  out->instructions.reserve(static_cast<std::size_t>(std::count(live.begin(), live.end(), 1)));
  std::vector<Id> new_ids(live.size(), -1);
  for (Id id = 0; id < from->size(); ++id) {
    if (at(live, id) == 0) continue;
    at(new_ids, id) = static_cast<Id>(out->instructions.size());
    out->instructions.push_back((*from)[id]);
    auto& copy = out->instructions.back();
    for (Id& operand : copy.operands) operand = at(new_ids, stand_in(stand_ins, operand));
    for (Id& before : copy.control_predecessors) before = at(new_ids, before);
  }
  for (const Id parameter : from->parameters) out->parameters.push_back(at(new_ids, parameter));
  out->root = at(new_ids, stand_in(stand_ins, from->root));
  return out;
}

// Drops computations that the entry does not reach and renumbers callees.
Program without_uncalled(Program program) {
  std::vector<char> called(program.computations.size(), 0);
  at(called, program.entry) = 1;
  for (ComputationId c = isize(program.computations) - 1; c >= 0; --c) {
    if (at(called, c) == 0) continue;
    for (const auto& instruction : program[c].instructions)
      for (const ComputationId callee : instruction.called) at(called, callee) = 1;
  }
  if (std::find(called.begin(), called.end(), 0) == called.end()) return program;
  std::vector<ComputationId> new_ids(called.size(), -1);
  std::vector<ComputationRef> kept;
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    if (at(called, c) == 0) continue;
    auto copy = std::make_shared<Computation>(program[c]);
    for (auto& instruction : copy->instructions)
      for (auto& callee : instruction.called) callee = at(new_ids, callee);
    at(new_ids, c) = isize(kept);
    kept.push_back(std::move(copy));
  }
  program.computations = std::move(kept);
  program.entry = at(new_ids, program.entry);
  return program;
}

}  // namespace

Program without_dead_code(const Program& program, const std::vector<StandIns>& stand_ins) {
  Program out = program;
  const std::vector<bool> with_effects = computations_with_effects(program);
  for (ComputationId c = 0; c < isize(program.computations); ++c)
    at(out.computations, c) = without_dead(
        at(program.computations, c), live_instructions(program[c], with_effects, at(stand_ins, c)), at(stand_ins, c));
  return without_uncalled(std::move(out));
}

Program remove_dead_code(const Program& program) {
  return without_dead_code(program, std::vector<StandIns>(program.computations.size()));
}

}  // namespace tessera
