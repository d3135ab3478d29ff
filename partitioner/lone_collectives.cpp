// SPDX-License-Identifier: Apache-2.0
#include "lone_collectives.h"

#include <algorithm>

#include "collective_match.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

bool each_to_itself(const PermuteAttributes& permute, std::int64_t devices) {
  const auto& pairs = permute.source_target_pairs.pairs;
  return static_cast<std::int64_t>(pairs.size()) == devices &&
         std::all_of(pairs.begin(), pairs.end(), [](const auto& pair) { return pair.first == pair.second; });
}

bool groups_of_one(const CollectiveAttributes& collective, std::int64_t devices) {
  const auto& groups = collective.replica_groups.groups;
  if (groups.empty()) return devices == 1;
  return static_cast<std::int64_t>(groups.size()) == devices &&
         std::all_of(groups.begin(), groups.end(), [](const auto& group) { return group.size() == 1; });
}

bool is_alone(const Program& program, const Computation& computation, const Instruction& instruction) {
  if (instruction.op->role != Role::kCollective) return false;
  std::vector<Type> given;
  for (const Id operand : instruction.operands) given.push_back(computation[operand].type);
  if (given.empty() || instruction.type != (given.size() == 1 ? given[0] : Type::tuple(given))) return false;
  if (const auto* permute = attributes_if<PermuteAttributes>(instruction))
    return each_to_itself(*permute, program.num_partitions);
  const auto* collective = attributes_if<CollectiveAttributes>(instruction);
  return collective != nullptr && groups_of_one(*collective, program.num_partitions);
}

}  // namespace

Program without_lone_collectives(const Program& program) {
  const auto only_device = [&](const Instruction& instruction) {
    return instruction.op->role == Role::kPartitionId && program.num_partitions == 1;
  };
  return rewrite(
      program,
      [&](ComputationRewriter& r, Id id) -> Value {
        const Instruction& old = r.from()[id];
        if (only_device(old)) return ops::constant(r.builder(), Literal(old.type));
        if (!is_alone(program, r.from(), old)) return {};
        auto given = r.mapped(old.operands);
        return given.size() == 1 ? given[0] : ops::tuple(r.builder(), given);
      },
      [&](const Computation& computation) {
        return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                           [&](const Instruction& i) { return only_device(i) || is_alone(program, computation, i); });
      });
}

}  // namespace tessera
