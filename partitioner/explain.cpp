// SPDX-License-Identifier: Apache-2.0
#include "explain.h"

#include <algorithm>

#include "insert_reshards.h"
#include "tessera/base/text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/control_flow.h"
#include "tessera/partitioner/plan_reshard.h"
#include "tessera/passes/explanations.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

constexpr std::string_view kUnknownAxes = "?";

std::int64_t group_size(const Instruction& instruction, std::int64_t partitions) {
  const auto& groups = attributes_as<CollectiveAttributes>(instruction.attributes).replica_groups.groups;
  return groups.empty() || groups.front().empty() ? partitions : isize(groups.front());
}

// Of operands and results of so many bytes.
std::int64_t bytes_received(const Instruction& instruction, std::int64_t operand, std::int64_t result,
                            std::int64_t partitions) {
  const auto name = instruction.op->name;
  if (name == "collective-permute") return operand;
  const auto group = group_size(instruction, partitions);
  if (group <= 1) return 0;
  if (name == "all-gather") return result / group * (group - 1);
  if (name == "all-reduce") return 2 * operand * (group - 1) / group;
  if (name == "collective-broadcast") return operand;
  return operand / group * (group - 1);
}

// Several values that travel together have bytes and a reason each; all-to-all of a tuple moves the parts of one.
std::size_t part_count(const Instruction& instruction) {
  const bool is_one = instruction.op->name == "all-to-all" || !instruction.type.is_tuple() ||
                      instruction.type.elements().size() != instruction.operands.size();
  return is_one ? 1 : instruction.operands.size();
}

std::int64_t bytes_of_part(const Computation& computation, const Instruction& instruction, std::size_t part,
                           std::int64_t partitions) {
  return bytes_received(instruction, computation[instruction.operands[part]].type.byte_size(),
                        instruction.type.elements()[part].byte_size(), partitions);
}

}  // namespace

std::int64_t collective_bytes(const Computation& computation, const Instruction& instruction, std::int64_t partitions) {
  const std::size_t parts = part_count(instruction);
  std::int64_t sum = 0;
  if (parts > 1) {
    for (std::size_t part = 0; part < parts; ++part) sum += bytes_of_part(computation, instruction, part, partitions);
    return sum;
  }
  for (const Id id : instruction.operands) sum += computation[id].type.byte_size();
  return bytes_received(instruction, sum, instruction.type.byte_size(), partitions);
}

std::vector<double> run_counts(const Program& program) {
  std::vector<double> counts(program.computations.size(), 0);
  at(counts, program.entry) = 1;
  for (ComputationId c = isize(program.computations) - 1; c >= 0; --c) {
    const double here = at(counts, c);
    if (here == 0) continue;
    for (const auto& instruction : program[c].instructions) {
      const auto role = instruction.op->role;
      if (role != Role::kCall && role != Role::kWhile && role != Role::kConditional) continue;
      const double times = role == Role::kWhile
                               ? static_cast<double>(known_trip_count(program, program[c], instruction).value_or(1))
                               : 1;
      for (const ComputationId callee : instruction.called) at(counts, callee) += here * times;
    }
  }
  return counts;
}

namespace {

// The mesh axes of a text such as `data+model:(2)3`; all of the program's where it says none.
std::vector<std::string> axis_names(const Program& program, const std::string& text) {
  std::vector<std::string> out;
  for (const std::string& axis : split(text, '+'))
    if (!axis.empty() && axis != kUnknownAxes) out.push_back(axis.substr(0, axis.find(':')));
  if (!out.empty()) return out;
  for (const Mesh& mesh : program.meshes)
    for (const MeshAxis& axis : mesh.axes()) out.push_back(axis.name);
  return out;
}

StepKind kind_of(std::string_view opcode) {
  if (opcode == "all-gather") return StepKind::kAllGather;
  if (opcode == "all-reduce") return StepKind::kAllReduce;
  if (opcode == "reduce-scatter") return StepKind::kReduceScatter;
  if (opcode == "all-to-all") return StepKind::kAllToAll;
  return StepKind::kPermute;
}

// Of one execution.
double seconds_of(const Program& program, const Instruction& instruction, const std::string& axes, std::int64_t bytes,
                  const Topology& topology) {
  const StepKind kind = kind_of(instruction.op->name);
  const std::int64_t group = kind == StepKind::kPermute ? 2 : group_size(instruction, program.num_partitions);
  return modelled_seconds(topology.slowest(axis_names(program, axes)), messages_of(kind, group), bytes);
}

CollectiveNote note_of_part(const Instruction& instruction, std::size_t part) {
  const auto text = [&](std::string_view key, std::string_view otherwise) {
    const std::string found = explanation(instruction, key, part);
    return found.empty() ? std::string(otherwise) : found;
  };
  CollectiveNote note;
  note.collective = instruction.name;
  note.opcode = instruction.op->name;
  note.part = static_cast<int>(part);
  note.parts = static_cast<int>(part_count(instruction));
  note.axes = text("tessera.axes", kUnknownAxes);
  note.reason = text(kReasonAttribute, "stands in the input");
  note.source = source_of_part(instruction, part);
  note.from = text(kFromAttribute, "");
  note.to = text(kToAttribute, "");
  note.remedy = text(kRemedyAttribute, "");
  note.asked = !text(kAskedAttribute, "").empty();
  return note;
}

}  // namespace

Link link_of(const Program& program, const Instruction& collective, const Topology& topology) {
  return topology.slowest(axis_names(program, explanation(collective, "tessera.axes", 0)));
}

std::vector<CollectiveNote> collective_notes(const Program& scheduled, const Topology& topology) {
  const Program program = make_synchronous(scheduled);
  std::vector<CollectiveNote> notes;
  const auto counts = run_counts(program);
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    const double count = at(counts, c);
    if (count == 0) continue;
    for (const auto& instruction : program[c].instructions) {
      if (instruction.op->role != Role::kCollective) continue;
      const std::int64_t all = collective_bytes(program[c], instruction, program.num_partitions);
      for (std::size_t part = 0; part < part_count(instruction); ++part) {
        CollectiveNote& note = notes.emplace_back(note_of_part(instruction, part));
        const std::int64_t bytes =
            note.parts == 1 ? all : bytes_of_part(program[c], instruction, part, program.num_partitions);
        note.bytes = static_cast<std::int64_t>(static_cast<double>(bytes) * count);
        // The messages of all parts leave together.
        const double share = note.parts == 1 ? 1 : all > 0 ? static_cast<double>(bytes) / static_cast<double>(all) : 0;
        constexpr double kMilliseconds = 1e3;
        note.milliseconds = seconds_of(program, instruction, note.axes, all, topology) * share * kMilliseconds * count;
      }
    }
  }
  return notes;
}

}  // namespace tessera
