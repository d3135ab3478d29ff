// SPDX-License-Identifier: Apache-2.0
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

bool equal_values(const Instruction& a, const Instruction& b) {
  return a.op == b.op && a.operands == b.operands && a.type == b.type && a.called == b.called &&
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

ComputationRef merged(const Computation& from, const std::vector<bool>& with_effects) {
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
      if (equal_values((*out)[it->second], instruction)) at(same_as, id) = it->second;
    if (at(same_as, id) == id) seen.emplace(key, id);
  }
  out->root = at(same_as, from.root);
  return out;
}

}  // namespace

Program merge_duplicates(const Program& program) {
  Program out = program;
  const std::vector<bool> with_effects = computations_with_effects(program);
  for (ComputationId c = 0; c < isize(program.computations); ++c)
    at(out.computations, c) = merged(program[c], with_effects);
  return remove_dead_code(out);
}

}  // namespace tessera
