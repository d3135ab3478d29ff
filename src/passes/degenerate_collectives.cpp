// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "tessera/ir/op_def.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

bool each_to_itself(const PermuteAttributes& permute, std::int64_t devices) {
  const auto& pairs = permute.source_target_pairs.pairs;
  return static_cast<std::int64_t>(pairs.size()) == devices &&
         std::all_of(pairs.begin(), pairs.end(), [](const auto& pair) { return pair.first == pair.second; });
}

// Then all devices get zeros.
bool receives_nothing(const PermuteAttributes& permute) { return permute.source_target_pairs.pairs.empty(); }

bool groups_of_one(const CollectiveAttributes& collective, std::int64_t devices) {
  const auto& groups = collective.replica_groups.groups;
  if (groups.empty()) return devices == 1;
  return static_cast<std::int64_t>(groups.size()) == devices &&
         std::all_of(groups.begin(), groups.end(), [](const auto& group) { return group.size() == 1; });
}

// Whether each of `among` devices or replicas is alone in its group.
bool is_alone(std::int64_t among, const Computation& computation, const Instruction& instruction) {
  if (instruction.op->role != Role::kCollective) return false;
  std::vector<Type> given;
  for (const Id operand : instruction.operands) given.push_back(computation[operand].type);
  const bool is_unchanged = given.size() == 1 && instruction.type == given[0];
  if (given.empty() || !(is_unchanged || instruction.type == Type::tuple(given))) return false;
  if (const auto* permute = attributes_if<PermuteAttributes>(instruction.attributes))
    return each_to_itself(*permute, among) || (is_unchanged && receives_nothing(*permute));
  const auto* collective = attributes_if<CollectiveAttributes>(instruction.attributes);
  return collective != nullptr && groups_of_one(*collective, among);
}

// Whether the groups of the collective consist of replicas, in a program of one replica.
bool is_over_replicas(const Instruction& instruction) {
  if (const auto* permute = attributes_if<PermuteAttributes>(instruction.attributes)) return permute->channel_id == 0;
  const auto* collective = attributes_if<CollectiveAttributes>(instruction.attributes);
  return collective != nullptr && collective->channel_id == 0 && !collective->use_global_device_ids;
}

using Replaced = std::function<bool(const Computation&, const Instruction&)>;

// The value of a collective of one device.
Value value_of_alone(ComputationRewriter& r, const Instruction& collective) {
  const auto given = r.mapped(collective.operands);
  if (collective.type.is_tuple()) return ops::tuple(r.builder(), given);
  const auto* permute = attributes_if<PermuteAttributes>(collective.attributes);
  const bool is_zero = permute != nullptr && receives_nothing(*permute);
  if (!is_zero && !collective.sharding) return given[0];
  const Value value = is_zero ? ops::full(r.builder(), collective.type, 0) : ops::copy(given[0]);
  r.builder().set_sharding(value, collective.sharding);
  return value;
}

// Replaces collectives by their values, and the number of the only device by 0.
Program with_operands_for(const Program& program, const Replaced& is_replaced) {
  return rewrite(
      program,
      [&](ComputationRewriter& r, Id id) -> Value {
        const Instruction& old = r.from()[id];
        if (!is_replaced(r.from(), old)) return {};
        if (old.op->role == Role::kPartitionId) return ops::constant(r.builder(), Literal(old.type));
        return value_of_alone(r, old);
      },
      [&](const Computation& computation) {
        return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                           [&](const Instruction& i) { return is_replaced(computation, i); });
      });
}

}  // namespace

Program without_degenerate_collectives(const Program& program) {
  return with_operands_for(program, [&](const Computation& computation, const Instruction& instruction) {
    const bool only_device = instruction.op->role == Role::kPartitionId && program.num_partitions == 1;
    return only_device || is_alone(program.num_partitions, computation, instruction);
  });
}

Program without_replica_collectives(const Program& program) {
  const bool counts_devices = program.num_partitions > 1;  // otherwise the number of ranks of the job counts
  if (program.replica_count != 1 || !counts_devices) return program;
  const auto is_identity = [](const Computation& computation, const Instruction& instruction) {
    return is_over_replicas(instruction) && is_alone(1, computation, instruction);
  };
  const auto has_one = [&](const ComputationRef& computation) {
    return std::any_of(computation->instructions.begin(), computation->instructions.end(),
                       [&](const Instruction& i) { return is_identity(*computation, i); });
  };
  if (std::none_of(program.computations.begin(), program.computations.end(), has_one)) return program;
  return with_operands_for(program, is_identity);
}

namespace {

// Whether the collective lists replicas, each of which stands for all its partitions.
bool lists_replicas(const Program& program, const Instruction& instruction) {
  const auto* collective = attributes_if<CollectiveAttributes>(instruction.attributes);
  if (collective == nullptr || collective->channel_id == 0 || collective->use_global_device_ids) return false;
  const auto& groups = collective->replica_groups.groups;
  const auto has_replicas = [&](const auto& group) {
    return std::all_of(group.begin(), group.end(), [&](auto id) { return id >= 0 && id < program.replica_count; });
  };
  return program.num_partitions > 1 && !groups.empty() && std::all_of(groups.begin(), groups.end(), has_replicas);
}

// Device number = replica * number of partitions + partition.
Attributes with_devices_of(const CollectiveAttributes& collective, std::int64_t partitions) {
  CollectiveAttributes out = collective;
  std::vector<std::vector<std::int64_t>> groups;
  for (const auto& replicas : collective.replica_groups.groups) {
    groups.emplace_back();
    for (const auto replica : replicas)
      for (std::int64_t partition = 0; partition < partitions; ++partition)
        groups.back().push_back(replica * partitions + partition);
  }
  out.replica_groups = ReplicaGroups{std::move(groups)};
  out.use_global_device_ids = true;
  return make_attributes(std::move(out));
}

}  // namespace

Program with_groups_of_devices(const Program& program) {
  Program out = without_replica_collectives(program);
  for (ComputationRef& computation : out.computations) {
    const auto lists = [&](const Instruction& i) { return lists_replicas(program, i); };
    if (std::none_of(computation->instructions.begin(), computation->instructions.end(), lists)) continue;
    auto changed = std::make_shared<Computation>(*computation);
    for (Instruction& instruction : changed->instructions)
      if (lists(instruction))
        instruction.attributes =
            with_devices_of(attributes_as<CollectiveAttributes>(instruction.attributes), program.num_partitions);
    computation = std::move(changed);
  }
  return out;
}

}  // namespace tessera
