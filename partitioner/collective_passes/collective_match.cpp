// SPDX-License-Identifier: Apache-2.0
#include "collective_passes/collective_match.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"

namespace tessera {

bool is_single(const Instruction& instruction, CollectiveKind kind) {
  return instruction.op->collective == kind && instruction.operands.size() == 1 && instruction.type.is_array();
}

namespace {

bool is_reduction(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
}

// Compares in place: copies or texts of large groups would be expensive.
bool same_attributes(const Instruction& a, const Instruction& b) {
  if (a.attributes == b.attributes) return true;
  if (const auto* left = attributes_if<PermuteAttributes>(a.attributes)) {
    const auto* right = attributes_if<PermuteAttributes>(b.attributes);
    return (left->channel_id == 0) == (right->channel_id == 0) &&
           left->source_target_pairs == right->source_target_pairs;
  }
  const auto& left = attributes_as<CollectiveAttributes>(a.attributes);
  const auto& right = attributes_as<CollectiveAttributes>(b.attributes);
  return (left.channel_id == 0) == (right.channel_id == 0) && left.dimensions == right.dimensions &&
         left.use_global_device_ids == right.use_global_device_ids && left.replica_groups == right.replica_groups;
}

}  // namespace

bool same_exchange(const Program& program, const Instruction& a, const Instruction& b) {
  if (a.op != b.op || !same_attributes(a, b)) return false;
  if (a.called == b.called) return true;
  const auto reduction = is_reduction(a.op->collective) ? reduction_by(program, a) : std::nullopt;
  return reduction && reduction == reduction_by(program, b) &&
         program[a.called[0]].root_type() == program[b.called[0]].root_type();
}

std::size_t hash_exchange(const Instruction& instruction) {
  std::size_t key = hash_text(instruction.op->name);
  const auto add = [&](std::int64_t number) { key = hash_mix(key, static_cast<std::size_t>(number)); };
  if (const auto* permute = attributes_if<PermuteAttributes>(instruction.attributes)) {
    add(isize(permute->source_target_pairs.pairs));
    for (const auto& [source, target] : permute->source_target_pairs.pairs) add(source * 4096 + target);
    return key;
  }
  const auto& attributes = attributes_as<CollectiveAttributes>(instruction.attributes);
  for (const auto dim : attributes.dimensions) add(dim);
  add(isize(attributes.replica_groups.groups));
  if (!attributes.replica_groups.groups.empty())
    for (const auto device : attributes.replica_groups.groups.front()) add(device);
  return key;
}

std::vector<std::vector<std::int64_t>> groups_of(const Program& program, const Instruction& collective) {
  const auto& attributes = attributes_as<CollectiveAttributes>(collective.attributes);
  const auto& groups = attributes.replica_groups.groups;
  const bool names_one_replica = attributes.channel_id != 0 && !attributes.use_global_device_ids &&
                                 groups == std::vector<std::vector<std::int64_t>>{{0}};
  if (!groups.empty() && !names_one_replica) return groups;
  std::vector<std::int64_t> all(static_cast<std::size_t>(program.num_partitions));
  std::iota(all.begin(), all.end(), 0);
  return {all};
}

std::optional<std::int64_t> size_of_groups(const Program& program, const Instruction& collective) {
  const auto groups = groups_of(program, collective);
  for (const auto& group : groups)
    if (group.size() != groups.front().size()) return std::nullopt;
  return isize(groups.front());
}

std::optional<Reduction> reduction_by(const Program& program, const Instruction& collective) {
  return collective.called.size() == 1 ? reduction_of(program[collective.called[0]]) : std::nullopt;
}

bool is_pinned(const Instruction& instruction) {
  return instruction.frontend_attribute(kUnshardAttribute) != nullptr ||
         instruction.frontend_attribute(kBarrierAttribute) != nullptr;
}

std::vector<bool> ordered_by_control(const Computation& computation) {
  std::vector<bool> out(computation.instructions.size(), false);
  for (Id id = 0; id < computation.size(); ++id)
    for (const Id before : computation[id].control_predecessors)
      out[static_cast<std::size_t>(id)] = out[static_cast<std::size_t>(before)] = true;
  return out;
}

namespace {

// The op table has no field for the channels of sends and receives; they are attributes that are kept as text.
std::int64_t channel_kept_of(const Instruction& instruction) {
  std::int64_t out = 0;
  if (!instruction.notes) return out;
  for (const TextAttribute& kept : instruction.notes->other) {
    if (kept.name != "channel_id") continue;
    try {
      parse_field(kept.text, out);
    } catch (Error& error) {
      throw error.prefix(fmt::format("%{}: channel_id: ", instruction.name));
    }
  }
  return out;
}

std::int64_t channel_of(const Instruction& instruction) {
  if (const auto* collective = attributes_if<CollectiveAttributes>(instruction.attributes))
    return collective->channel_id;
  if (const auto* permute = attributes_if<PermuteAttributes>(instruction.attributes)) return permute->channel_id;
  return channel_kept_of(instruction);
}

}  // namespace

std::int64_t free_channel(const Program& program) {
  std::int64_t used = 0;
  for (const ComputationRef& computation : program.computations)
    for (const Instruction& instruction : computation->instructions) used = std::max(used, channel_of(instruction));
  require(used < std::numeric_limits<std::int64_t>::max() / 2, "channel_id={} leaves too few channels above it", used);
  return used + 1;
}

}  // namespace tessera
