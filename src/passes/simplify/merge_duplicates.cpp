// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <unordered_map>

#include "simplify/dead_code.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/passes/explanations.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

// The channel of a collective has no meaning beyond distinguishing collectives in the text.
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

/// For each computation, the first computation that is equal to it.
using FirstEquals = std::vector<ComputationId>;

bool equal_callees(const Instruction& a, const Instruction& b, const FirstEquals& first) {
  return std::equal(a.called.begin(), a.called.end(), b.called.begin(), b.called.end(),
                    [&](ComputationId x, ComputationId y) { return at(first, x) == at(first, y); });
}

// Operands count as equal if they are merged into the same value.
bool equal_operands(const Instruction& a, const Instruction& b, const std::vector<Id>* same_as) {
  if (same_as == nullptr) return a.operands == b.operands;
  return std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end(),
                    [&](Id x, Id y) { return at(*same_as, x) == at(*same_as, y); });
}

bool equal_values(const Instruction& a, const Instruction& b, const FirstEquals& first,
                  const std::vector<Id>* same_as = nullptr) {
  return a.op == b.op && equal_operands(a, b, same_as) && a.type == b.type && equal_callees(a, b, first) &&
         a.control_predecessors == b.control_predecessors && equal_attributes(a, b) &&
         equal_shardings(a.sharding, b.sharding) && equal_bindings(a, b);
}

// Equal values have equal keys. Few values differ in their shardings only, so equal_values() compares shardings and the
// key ignores them.
std::size_t key_of(const Instruction& instruction, const std::vector<Id>* same_as = nullptr) {
  std::size_t key = hash_mix(std::hash<const OpDef*>()(instruction.op), instruction.type.hash());
  for (const Id operand : instruction.operands)
    key = hash_mix(key, static_cast<std::size_t>(same_as != nullptr ? at(*same_as, operand) : operand));
  const bool has_channel = instruction.op->role == Role::kCollective;
  if (instruction.attributes && !has_channel) key = hash_mix(key, instruction.attributes->hash());
  return hash_mix(key, hash_bindings(instruction));
}

bool equal_computations(const Computation& a, const Computation& b, const FirstEquals& first) {
  return a.parameters == b.parameters && a.root == b.root && a.execution_thread == b.execution_thread &&
         std::equal(a.instructions.begin(), a.instructions.end(), b.instructions.begin(), b.instructions.end(),
                    [&](const Instruction& x, const Instruction& y) { return equal_values(x, y, first); });
}

// Callees come before their callers, and nothing calls the entry.
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

// Returns, for each value, the first value that is equal to it.
StandIns first_values(const Computation& from, const std::vector<bool>& with_effects, const FirstEquals& first) {
  StandIns same_as(from.instructions.size());
  std::vector<std::size_t> keys(from.instructions.size());
  const std::size_t mask = std::bit_ceil(2 * from.instructions.size() + 1) - 1;
  std::vector<Id> table(mask + 1, -1);  // open addressing
  for (Id id = 0; id < from.size(); ++id) {
    const auto& instruction = from[id];
    at(same_as, id) = id;
    if (instruction.op->role == Role::kParameter || has_side_effect(instruction, with_effects)) continue;
    const auto key = at(keys, id) = key_of(instruction, &same_as);
    const auto is_same = [&](Id other) {
      return at(keys, other) == key && equal_values(from[other], instruction, first, &same_as);
    };
    std::size_t place = key & mask;
    while (table[place] >= 0 && !is_same(table[place])) place = (place + 1) & mask;
    if (table[place] < 0) table[place] = id;
    at(same_as, id) = table[place];
  }
  return same_as;
}

}  // namespace

Program merge_duplicates(const Program& program) {
  const std::vector<bool> with_effects = computations_with_effects(program);
  const FirstEquals first = first_equals(program);
  std::vector<StandIns> stand_ins;
  for (const ComputationRef& computation : program.computations)
    stand_ins.push_back(first_values(*computation, with_effects, first));
  return without_dead_code(program, stand_ins);
}

}  // namespace tessera
