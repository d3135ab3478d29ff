// SPDX-License-Identifier: Apache-2.0
#include "propagation/op_signatures.h"

#include <algorithm>

#include "propagation/factor_sharding.h"

namespace tessera {
namespace {

std::size_t hash_of(const Computation& computation, const Instruction& instruction) {
  std::size_t key = hash_mix(std::hash<const OpDef*>()(instruction.op), instruction.type.hash());
  for (const Id operand : instruction.operands) key = hash_mix(key, computation[operand].type.hash());
  for (const ComputationId callee : instruction.called) key = hash_mix(key, static_cast<std::size_t>(callee));
  return instruction.attributes ? hash_mix(key, instruction.attributes->hash()) : key;
}

bool is_of(const OpSignature& signature, const Program& program, const Computation& computation,
           const Instruction& instruction) {
  const OpView& view = signature.view;
  return &view.op == instruction.op && view.result == instruction.type &&
         std::equal(view.operands.begin(), view.operands.end(), instruction.operands.begin(),
                    instruction.operands.end(),
                    [&](const Type& type, Id operand) { return type == computation[operand].type; }) &&
         std::equal(view.called.begin(), view.called.end(), instruction.called.begin(), instruction.called.end(),
                    [&](const auto& callee, ComputationId id) { return callee == at(program.computations, id); }) &&
         equal(view.attributes, instruction.attributes);
}

}  // namespace

const OpSignature& OpSignatures::of(const Program& program, const Computation& computation,
                                    const Instruction& instruction) {
  const std::size_t key = hash_of(computation, instruction);
  const auto [begin, end] = signatures_.equal_range(key);
  const auto found = std::find_if(
      begin, end, [&](const auto& entry) { return is_of(entry.second, program, computation, instruction); });
  if (found != end) return found->second;
  OpSignature signature{isize(signatures_), view_of(program, computation, instruction), nullptr};
  signature.map = std::make_shared<const FactorMap>(factor_map(signature.view));
  return signatures_.emplace(key, std::move(signature))->second;
}

std::size_t SharedShardings::Hash::operator()(const ShardingRef& shardings) const {
  std::size_t key = shardings->size();
  for (const Sharding& leaf : *shardings) key = hash_mix(key, leaf.hash());
  return key;
}

int SharedShardings::id_of(const ShardingRef& shardings) {
  if (const auto known = by_place_.find(shardings.get()); known != by_place_.end()) return known->second;
  const auto [entry, is_new] = ids_.try_emplace(shardings, isize(all_));
  if (!is_new) return entry->second;
  all_.push_back(shardings);
  return by_place_.emplace(shardings.get(), entry->second).first->second;
}

}  // namespace tessera
