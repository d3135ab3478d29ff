// SPDX-License-Identifier: Apache-2.0
#include "explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "reshard_insertion/insert_reshards.h"
#include "tessera/base/checked.h"
#include "tessera/base/text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/control_flow.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"
#include "tessera/passes/explanations.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

// Values that are combined in one collective each have a size and a reason. An all-to-all of a tuple exchanges the
// parts of one value.
std::size_t part_count(const Instruction& instruction) {
  const bool has_parts = instruction.op->exchanges_each_operand && instruction.type.is_tuple() &&
                         instruction.type.elements().size() == instruction.operands.size();
  return has_parts ? instruction.operands.size() : 1;
}

std::int64_t bytes_of_part(const Computation& computation, const Instruction& instruction, std::size_t part,
                           std::int64_t partitions) {
  return bytes_received(instruction, computation[instruction.operands[part]].type.byte_size(),
                        instruction.type.elements()[part].byte_size(), partitions);
}

}  // namespace

std::int64_t collective_bytes(const Computation& computation, const Instruction& instruction, std::int64_t partitions) {
  const std::size_t parts = part_count(instruction);
  Checked sum = 0;
  if (parts > 1) {
    for (std::size_t part = 0; part < parts; ++part) sum += bytes_of_part(computation, instruction, part, partitions);
    return sum.value_or_most();
  }
  const int moved = instruction.op->data_operands;
  for (int i = 0; i < (moved < 0 ? isize(instruction.operands) : moved); ++i)
    sum += computation[at(instruction.operands, i)].type.byte_size();
  return bytes_received(instruction, sum.value_or_most(), instruction.type.byte_size(), partitions);
}

std::vector<RunCount> known_run_counts(const Program& program) {
  std::vector<RunCount> counts(program.computations.size());
  at(counts, program.entry).times = 1;
  for (ComputationId c = isize(program.computations) - 1; c >= 0; --c) {
    const RunCount here = at(counts, c);
    if (here.times == 0) continue;
    for (const auto& instruction : program[c].instructions) {
      const auto role = instruction.op->role;
      if (role != Role::kCall && role != Role::kWhile && role != Role::kConditional) continue;
      const auto trips = role == Role::kWhile ? known_trip_count(program, program[c], instruction) : 1;
      for (const ComputationId callee : instruction.called) {
        at(counts, callee).times += here.times * static_cast<double>(trips.value_or(1));
        at(counts, callee).is_known &= here.is_known && trips.has_value();
      }
    }
  }
  return counts;
}

std::vector<double> run_counts(const Program& program) {
  std::vector<double> times;
  for (const RunCount& count : known_run_counts(program)) times.push_back(count.times);
  return times;
}

namespace {

constexpr std::string_view kDevices = "devices ";

// The sets of devices that exchange data, each in order.
std::vector<std::vector<std::int64_t>> device_sets(const Program& program, const Instruction& instruction) {
  std::vector<std::vector<std::int64_t>> sets;
  if (instruction.op->collective == CollectiveKind::kPermute) {
    for (const auto& [from, to] : attributes_as<PermuteAttributes>(instruction.attributes).source_target_pairs.pairs)
      if (from != to) sets.push_back({std::min(from, to), std::max(from, to)});
    return sets;
  }
  sets = attributes_as<CollectiveAttributes>(instruction.attributes).replica_groups.groups;
  if (sets.empty()) {
    sets.emplace_back(static_cast<std::size_t>(program.num_partitions));
    std::iota(sets.back().begin(), sets.back().end(), 0);
  }
  for (auto& set : sets) std::sort(set.begin(), set.end());
  return sets;
}

// The axes along which devices of a set differ.
std::vector<AxisRef> differing_axes(const Mesh& mesh, const std::vector<std::vector<std::int64_t>>& sets) {
  std::vector<AxisRef> out;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    const AxisRef ref = mesh.full_axis(axis);
    const auto coordinate = [&](std::int64_t device) { return mesh.coordinate(mesh.position_of(device), ref); };
    const bool differs = std::any_of(sets.begin(), sets.end(), [&](const auto& set) {
      return std::any_of(set.begin(), set.end(), [&](auto device) { return coordinate(device) != coordinate(set[0]); });
    });
    if (differs) out.push_back(ref);
  }
  return out;
}

std::string axes_text(const Mesh& mesh, const std::vector<AxisRef>& axes) {
  std::vector<std::string> names;
  for (const AxisRef& axis : axes) names.push_back(mesh.axis_text(axis));
  return fmt::format("{}", fmt::join(names, "+"));
}

// Text such as `0-3,6`. Of many ranges, only the first ones and the last.
std::string ranges_text(const std::set<std::int64_t>& numbers) {
  std::vector<std::string> parts;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const std::int64_t first = *at;
    std::int64_t last = first;
    while (++at != numbers.end() && *at == last + 1) last = *at;
    parts.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  }
  constexpr std::size_t kMost = 8;
  constexpr std::size_t kShown = 4;
  if (parts.size() > kMost)
    return fmt::format("{},...,{} ({} devices)", fmt::join(parts.begin(), parts.begin() + kShown, ","), parts.back(),
                       numbers.size());
  return fmt::format("{}", fmt::join(parts, ","));
}

// Text such as `data+model` if the groups are the devices along mesh axes, else `devices 0-5`. A permute is along the
// axes in which its pairs differ, if these are not all axes of the mesh.
std::string axes_of_devices(const Program& program, const Instruction& instruction) {
  auto sets = device_sets(program, instruction);
  const bool is_permute = instruction.op->collective == CollectiveKind::kPermute;
  std::set<std::int64_t> devices;
  for (const auto& set : sets) devices.insert(set.begin(), set.end());
  std::sort(sets.begin(), sets.end());
  for (const Mesh& mesh : program.meshes) {
    if (devices.empty() || *devices.rbegin() >= mesh.device_count()) continue;
    const auto axes = differing_axes(mesh, sets);
    if (axes.empty()) continue;
    auto groups = mesh.groups(axes);
    for (auto& group : groups) std::sort(group.begin(), group.end());
    std::sort(groups.begin(), groups.end());
    if (is_permute ? isize(axes) < mesh.axis_count() || mesh.axis_count() == 1 : groups == sets)
      return axes_text(mesh, axes);
  }
  return std::string(kDevices) + ranges_text(devices);
}

// The mesh axes in a text such as `data+model:(2)3`.
std::vector<std::string> axes_in(const std::string& text) {
  std::vector<std::string> out;
  const bool are_axes = !text.empty() && !text.starts_with(kDevices);
  for (const std::string& axis : are_axes ? split(text, '+') : std::vector<std::string>())
    out.push_back(axis.substr(0, axis.find(':')));
  return out;
}

// The mesh axes in a text; all axes of the program if the text names none.
std::vector<std::string> axis_names(const Program& program, const std::string& text) {
  std::vector<std::string> out = axes_in(text);
  if (!out.empty()) return out;
  for (const Mesh& mesh : program.meshes)
    for (const MeshAxis& axis : mesh.axes()) out.push_back(axis.name);
  return out;
}

StepKind step_kind_of(CollectiveKind collective) {
  switch (collective) {
    case CollectiveKind::kAllGather: return StepKind::kAllGather;
    case CollectiveKind::kAllReduce: return StepKind::kAllReduce;
    case CollectiveKind::kReduceScatter: return StepKind::kReduceScatter;
    case CollectiveKind::kAllToAll: return StepKind::kAllToAll;
    default: return StepKind::kPermute;
  }
}

// The modelled time of one execution.
double seconds_of(const Program& program, const Instruction& instruction, const std::string& axes, std::int64_t bytes,
                  const Topology& topology) {
  const StepKind kind = step_kind_of(instruction.op->collective);
  const std::int64_t group =
      kind == StepKind::kPermute ? 2 : collective_group_size(instruction, program.num_partitions);
  return exchange_seconds(topology.slowest(axis_names(program, axes)), messages_of(kind, group), bytes);
}

CollectiveNote note_of_part(const Program& program, const Instruction& instruction, std::size_t part) {
  const auto text = [&](std::string_view key, std::string_view otherwise) {
    const std::string found = explanation(instruction, key, part);
    return found.empty() ? std::string(otherwise) : found;
  };
  CollectiveNote note;
  note.collective = instruction.name;
  note.opcode = instruction.op->name;
  note.part = static_cast<int>(part);
  note.parts = static_cast<int>(part_count(instruction));
  note.axes = text("tessera.axes", "");
  if (note.axes.empty()) note.axes = axes_of_devices(program, instruction);
  note.reason = text(kReasonAttribute, "is part of the input program");
  note.consumer = text(kConsumerAttribute, "");
  note.source = source_of_part(instruction, part);
  note.from = text(kFromAttribute, "");
  note.to = text(kToAttribute, "");
  note.next = text(kNextAttribute, "");
  note.remedy = Remedy::from_attribute(explanation(instruction, kRemedyAttribute, part));
  const bool is_of_the_text = explanation(instruction, kReasonAttribute, part).empty();
  note.asked = is_of_the_text || !text(kAskedAttribute, "").empty();
  return note;
}

}  // namespace

Link link_of(const Program& program, const Instruction& collective, const Topology& topology) {
  return topology.slowest(axis_names(program, explanation(collective, "tessera.axes", 0)));
}

std::vector<std::string> axes_of(const Program& program, const Instruction& collective) {
  const std::string text = explanation(collective, "tessera.axes", 0);
  return axes_in(text.empty() ? axes_of_devices(program, collective) : text);
}

double collective_seconds(const Program& program, const Computation& computation, const Instruction& collective,
                          const Topology& topology) {
  const std::int64_t bytes = collective_bytes(computation, collective, program.num_partitions);
  return seconds_of(program, collective, explanation(collective, "tessera.axes", 0), bytes, topology);
}

std::string shown_collective(const CollectiveNote& note) {
  return fmt::format("%{}{}{}", note.computation, note.computation.empty() ? "" : "/", note.collective);
}

std::int64_t collective_count(const std::vector<CollectiveNote>& notes) {
  return std::count_if(notes.begin(), notes.end(), [](const CollectiveNote& note) { return note.part == 0; });
}

std::string rounds_text(double rounds, bool known) {
  if (!known)
    return rounds == 1
               ? ", of one round (the number of rounds of the loop is unknown)"
               : fmt::format(", of {:.0f} rounds (the number of rounds of an inner or outer loop is unknown)", rounds);
  return rounds == 1 ? "" : fmt::format(" in {:.0f} rounds", rounds);
}

std::vector<CollectiveNote> collective_notes(const Program& scheduled, const Topology& topology) {
  const Program program = make_synchronous(scheduled);
  std::vector<CollectiveNote> notes;
  const auto counts = known_run_counts(program);
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    const double count = at(counts, c).times;
    if (count == 0) continue;
    for (const auto& instruction : program[c].instructions) {
      if (instruction.op->role != Role::kCollective) continue;
      const std::int64_t all = collective_bytes(program[c], instruction, program.num_partitions);
      for (std::size_t part = 0; part < part_count(instruction); ++part) {
        CollectiveNote& note = notes.emplace_back(note_of_part(program, instruction, part));
        const std::int64_t bytes =
            note.parts == 1 ? all : bytes_of_part(program[c], instruction, part, program.num_partitions);
        if (c != program.entry) note.computation = program[c].name;
        note.bytes = saturated(static_cast<double>(bytes) * count);
        note.rounds = count;
        note.rounds_known = at(counts, c).is_known;
        // The messages of all parts are sent together.
        const double share = note.parts == 1 ? 1 : all > 0 ? static_cast<double>(bytes) / static_cast<double>(all) : 0;
        constexpr double kMilliseconds = 1e3;
        note.milliseconds = seconds_of(program, instruction, note.axes, all, topology) * share * kMilliseconds * count;
      }
    }
  }
  return notes;
}

}  // namespace tessera
