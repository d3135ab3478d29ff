// SPDX-License-Identifier: Apache-2.0
#include "tessera/ir/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/ir/op_def.h"

namespace tessera {

const std::string* Instruction::frontend_attribute(std::string_view key) const {
  if (!notes) return nullptr;
  for (const auto& [name, value] : notes->frontend_attributes)
    if (name == key) return &value;
  return nullptr;
}

std::string Instruction::source() const {
  if (!notes || notes->source_file.empty()) return {};
  return fmt::format("{}:{}", notes->source_file, notes->source_line);
}

NotesRef with_frontend_attribute(const NotesRef& notes, std::string_view key, std::optional<std::string> value) {
  auto out = notes ? std::make_shared<Notes>(*notes) : std::make_shared<Notes>();
  auto& list = out->frontend_attributes;
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& item) { return item.first == key; });
  if (!value) {
    if (found != list.end()) list.erase(found);
  } else if (found != list.end()) {
    found->second = std::move(*value);
  } else {
    list.emplace_back(std::string(key), std::move(*value));
  }
  return out;
}

NotesRef for_another_op(const NotesRef& notes) {
  if (!notes || notes->other.empty()) return notes;
  auto out = std::make_shared<Notes>(*notes);
  out->other.clear();
  return out;
}

std::vector<Type> Computation::parameter_types() const {
  std::vector<Type> types;
  for (const Id id : parameters) types.push_back((*this)[id].type);
  return types;
}

std::vector<int> Computation::use_counts() const {
  std::vector<int> counts(instructions.size(), 0);
  for (const auto& instruction : instructions)
    for (const Id operand : instruction.operands) ++at(counts, operand);
  if (root >= 0) ++at(counts, root);
  return counts;
}

std::vector<std::vector<Id>> Computation::users() const {
  std::vector<std::vector<Id>> out(instructions.size());
  for (Id id = 0; id < size(); ++id)
    for (const Id operand : (*this)[id].operands)
      if (at(out, operand).empty() || at(out, operand).back() != id) at(out, operand).push_back(id);
  return out;
}

std::size_t Program::instruction_count() const {
  std::size_t count = 0;
  for (const auto& computation : computations) count += computation->instructions.size();
  return count;
}

namespace {

std::size_t hash_instruction(std::size_t seed, const Instruction& instruction) {
  seed = hash_mix(seed, hash_text(instruction.op->name));
  seed = hash_mix(seed, instruction.type.hash());
  for (const Id operand : instruction.operands) seed = hash_mix(seed, static_cast<std::size_t>(operand) + 1);
  for (const ComputationId id : instruction.called) seed = hash_mix(seed, static_cast<std::size_t>(id) + 7);
  for (const Id id : instruction.control_predecessors) seed = hash_mix(seed, static_cast<std::size_t>(id) + 13);
  if (instruction.attributes) seed = hash_mix(seed, instruction.attributes->hash());
  if (instruction.sharding)
    for (const auto& leaf : *instruction.sharding) seed = hash_mix(seed, leaf.hash());
  if (instruction.notes)
    for (const auto& [key, value] : instruction.notes->frontend_attributes)
      seed = hash_mix(hash_mix(seed, hash_text(key)), hash_text(value));
  return seed;
}

}  // namespace

std::size_t Program::hash() const {
  std::size_t seed = hash_mix(static_cast<std::size_t>(num_partitions), static_cast<std::size_t>(entry));
  seed = hash_mix(seed, (partitioned ? 1U : 0U) + (lowered ? 2U : 0U));
  for (const auto& alias : aliases)
    seed = hash_mix(hash_mix(seed, hash_text(fmt::format("{}", fmt::join(alias.output, ",")))),
                    static_cast<std::size_t>(alias.parameter));
  for (const auto& computation : computations) {
    seed = hash_mix(seed, static_cast<std::size_t>(computation->root));
    for (const auto& instruction : computation->instructions) seed = hash_instruction(seed, instruction);
  }
  return seed;
}

}  // namespace tessera
