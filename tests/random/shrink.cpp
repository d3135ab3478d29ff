// SPDX-License-Identifier: Apache-2.0
#include "random/shrink.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"

namespace tessera::testing {
namespace {

// Removes instructions that the root does not need, and renumbers the parameters of the entry.
Computation tidy(const Computation& from, bool is_entry) {
  std::vector<bool> needed(from.instructions.size(), false);
  needed[static_cast<std::size_t>(from.root)] = true;
  for (Id id = from.size() - 1; id >= 0; --id) {
    if (!is_entry && from[id].op->role == Role::kParameter) needed[static_cast<std::size_t>(id)] = true;
    if (!at(needed, id)) continue;
    for (const Id operand : from[id].operands) needed[static_cast<std::size_t>(operand)] = true;
  }
  Computation out;
  out.name = from.name;
  std::vector<Id> place(from.instructions.size(), -1);
  for (Id id = 0; id < from.size(); ++id) {
    if (!at(needed, id)) continue;
    Instruction copy = from[id];
    for (Id& operand : copy.operands) operand = at(place, operand);
    copy.control_predecessors.clear();
    at(place, id) = out.size();
    if (copy.op->role == Role::kParameter) {
      auto number = attributes_as<ParameterAttributes>(copy.attributes).number;
      if (is_entry) number = isize(out.parameters);
      copy.attributes = make_attributes(ParameterAttributes{number});
      if (isize(out.parameters) <= number) out.parameters.resize(static_cast<std::size_t>(number) + 1);
      at(out.parameters, number) = out.size();
    }
    out.instructions.push_back(std::move(copy));
  }
  out.root = at(place, from.root);
  return out;
}

class Shrinker {
 public:
  Shrinker(Program program, const std::function<bool(const Program&)>& fails)
      : best_(std::move(program)), fails_(fails) {}

  Program run() {
    for (bool smaller = true; smaller;) {
      smaller = false;
      for (ComputationId c = isize(best_.computations) - 1; c >= 0; --c) smaller = pass(c) || smaller;
    }
    Program clean = remove_dead_code(best_);
    return fails_(clean) ? clean : best_;
  }

 private:
  bool pass(ComputationId c) {
    bool smaller = false;
    for (Id id = 0; id < best_[c].size(); ++id) smaller = (c == best_.entry && try_root(id)) || smaller;
    smaller = try_fewer_results(c) || smaller;
    for (Id id = best_[c].size() - 1; id >= 0; --id) {
      if (id >= best_[c].size()) continue;
      smaller = try_operand(c, id) || (c == best_.entry && try_parameter(id)) || smaller;
      if (id < best_[c].size()) smaller = try_without_sharding(c, id) || smaller;
    }
    return smaller;
  }

  bool accept(ComputationId c, const Computation& changed) {
    Program next = best_;
    at(next.computations, c) = std::make_shared<const Computation>(tidy(changed, c == best_.entry));
    if (!fails_(next)) return false;
    best_ = std::move(next);
    return true;
  }

  bool try_root(Id id) {
    const Computation& entry = best_.entry_computation();
    if (id == entry.root || !entry[id].type.is_array()) return false;
    Computation changed = entry;
    changed.root = id;
    return accept(best_.entry, changed);
  }

  bool try_fewer_results(ComputationId c) {
    bool smaller = false;
    for (int i = 0; c == best_.entry && i < isize(best_[c][best_[c].root].operands); ++i) {
      const Instruction& root = best_[c][best_[c].root];
      if (root.op->role != Role::kTuple || root.operands.size() < 2) return smaller;
      Computation changed = best_[c];
      Instruction& tuple = at(changed.instructions, changed.root);
      tuple.operands.erase(tuple.operands.begin() + i);
      std::vector<Type> types;
      for (const Id operand : tuple.operands) types.push_back(changed[operand].type);
      tuple.type = Type::tuple(types);
      tuple.sharding = nullptr;
      smaller = accept(c, changed) || smaller;
    }
    return smaller;
  }

  // Replaces the instruction by one of its operands.
  bool try_operand(ComputationId c, Id id) {
    const Instruction instruction = best_[c][id];
    for (const Id operand : instruction.operands) {
      if (!(best_[c][operand].type == instruction.type)) continue;
      Computation changed = best_[c];
      for (auto& other : changed.instructions)
        for (Id& use : other.operands)
          if (use == id) use = operand;
      if (changed.root == id) changed.root = operand;
      if (accept(c, changed)) return true;
    }
    return false;
  }

  bool try_parameter(Id id) {
    const Instruction& old = best_.entry_computation()[id];
    if (old.op->role == Role::kParameter || !old.type.is_array()) return false;
    Computation changed = best_.entry_computation();
    Instruction& made = at(changed.instructions, id);
    made.op = &op_table().get("parameter");
    made.operands.clear();
    made.called.clear();
    made.attributes = make_attributes(ParameterAttributes{isize(changed.parameters)});
    changed.parameters.push_back(id);
    return accept(best_.entry, changed);
  }

  bool try_without_sharding(ComputationId c, Id id) {
    if (!best_[c][id].sharding) return false;
    Computation changed = best_[c];
    at(changed.instructions, id).sharding = nullptr;
    return accept(c, changed);
  }

  Program best_;
  const std::function<bool(const Program&)>& fails_;
};

}  // namespace

Program shrink(Program program, const std::function<bool(const Program&)>& fails) {
  return Shrinker(std::move(program), fails).run();
}

}  // namespace tessera::testing
