// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/passes/explanations.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

// A collective's channel only tells collectives apart in the text.
bool equal_attributes(const Instruction& a, const Instruction& b) {
  if (a.op->role != Role::kCollective) return equal(a.attributes, b.attributes);
  const auto without_channel = [](const Instruction& i) {
    auto texts = i.attributes ? i.attributes->texts() : std::vector<TextAttribute>{};
    std::erase_if(texts, [](const TextAttribute& t) { return t.name == "channel_id"; });
    return texts;
  };
  return without_channel(a) == without_channel(b);
}

bool equal_shardings(const ShardingRef& a, const ShardingRef& b) { return a == b || (a && b && *a == *b); }

/// By computation the first one that is equal to it.
using FirstEquals = std::vector<ComputationId>;

bool equal_callees(const Instruction& a, const Instruction& b, const FirstEquals& first) {
  return std::equal(a.called.begin(), a.called.end(), b.called.begin(), b.called.end(),
                    [&](ComputationId x, ComputationId y) { return at(first, x) == at(first, y); });
}

bool equal_values(const Instruction& a, const Instruction& b, const FirstEquals& first) {
  return a.op == b.op && a.operands == b.operands && a.type == b.type && equal_callees(a, b, first) &&
         a.control_predecessors == b.control_predecessors && equal_attributes(a, b) &&
         equal_shardings(a.sharding, b.sharding) && equal_bindings(a, b);
}

// Of all that equal_values() compares, or of what is equal when that is.
std::size_t key_of(const Instruction& instruction) {
  std::size_t key = hash_mix(hash_text(instruction.op->name), instruction.type.hash());
  for (const Id operand : instruction.operands) key = hash_mix(key, static_cast<std::size_t>(operand));
  const bool has_channel = instruction.op->role == Role::kCollective;
  if (instruction.attributes && !has_channel) key = hash_mix(key, instruction.attributes->hash());
  if (instruction.sharding)
    for (const auto& leaf : *instruction.sharding) key = hash_mix(key, leaf.hash());
  return hash_mix(key, hash_bindings(instruction));
}

bool equal_computations(const Computation& a, const Computation& b, const FirstEquals& first) {
  return a.parameters == b.parameters && a.root == b.root && a.execution_thread == b.execution_thread &&
         std::equal(a.instructions.begin(), a.instructions.end(), b.instructions.begin(), b.instructions.end(),
                    [&](const Instruction& x, const Instruction& y) { return equal_values(x, y, first); });
}

// Callees stand before their callers, and nobody calls the entry.
FirstEquals first_equals(const Program& program) {
  FirstEquals first(program.computations.size());
  std::unordered_multimap<std::size_t, ComputationId> seen;
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    at(first, c) = c;
    if (c == program.entry) continue;
    auto key = static_cast<std::size_t>(program[c].root);
    for (const Instruction& instruction : program[c].instructions) key = hash_mix(key, key_of(instruction));
    const auto [begin, end] = seen.equal_range(key);
    for (auto it = begin; it != end; ++it)
      if (equal_computations(program[it->second], program[c], first)) at(first, c) = it->second;
    if (at(first, c) == c) seen.emplace(key, c);
  }
  return first;
}

ComputationRef merged(const Computation& from, const std::vector<bool>& with_effects, const FirstEquals& first) {
  auto out = std::make_shared<Computation>(from);
  std::vector<Id> same_as(from.instructions.size());
  std::unordered_multimap<std::size_t, Id> seen;
  seen.reserve(from.instructions.size());
  for (Id id = 0; id < from.size(); ++id) {
    auto& instruction = at(out->instructions, id);
    for (Id& operand : instruction.operands) operand = at(same_as, operand);
    at(same_as, id) = id;
    if (instruction.op->role == Role::kParameter || has_side_effect(instruction, with_effects)) continue;
    const auto key = key_of(instruction);
    const auto [begin, end] = seen.equal_range(key);
    for (auto it = begin; it != end; ++it)
      if (equal_values((*out)[it->second], instruction, first)) at(same_as, id) = it->second;
    if (at(same_as, id) == id) seen.emplace(key, id);
  }
  out->root = at(same_as, from.root);
  return out;
}

}  // namespace

Program merge_duplicates(const Program& program) {
  Program out = program;
  const std::vector<bool> with_effects = computations_with_effects(program);
  const FirstEquals first = first_equals(program);
  for (ComputationId c = 0; c < isize(program.computations); ++c)
    at(out.computations, c) = merged(program[c], with_effects, first);
  return remove_dead_code(out);
}

}  // namespace tessera
