// SPDX-License-Identifier: Apache-2.0
#include "explain.h"

#include <algorithm>

#include "insert_reshards.h"
#include "tessera/base/text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/control_flow.h"
#include "tessera/partitioner/plan_reshard.h"

namespace tessera {
namespace {

constexpr std::string_view kUnknownAxes = "?";

std::int64_t group_size(const Instruction& instruction, std::int64_t partitions) {
  const auto& groups = attributes_as<CollectiveAttributes>(instruction.attributes).replica_groups.groups;
  return groups.empty() || groups.front().empty() ? partitions : isize(groups.front());
}

std::string attribute_or(const Instruction& instruction, std::string_view key, std::string_view otherwise) {
  const auto* found = instruction.frontend_attribute(key);
  return found != nullptr ? *found : std::string(otherwise);
}

}  // namespace

std::int64_t collective_bytes(const Computation& computation, const Instruction& instruction, std::int64_t partitions) {
  const auto name = instruction.op->name;
  const auto result = instruction.type.byte_size();
  std::int64_t operand = 0;
  for (const Id id : instruction.operands) operand += computation[id].type.byte_size();
  if (name == "collective-permute") return operand;
  const auto group = group_size(instruction, partitions);
  if (group <= 1) return 0;
  if (name == "all-gather") return result / group * (group - 1);
  if (name == "all-reduce") return 2 * operand * (group - 1) / group;
  if (name == "collective-broadcast") return operand;
  return operand / group * (group - 1);
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

}  // namespace

std::vector<CollectiveNote> collective_notes(const Program& program, const Topology& topology) {
  std::vector<CollectiveNote> notes;
  const auto counts = run_counts(program);
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    if (at(counts, c) == 0) continue;
    for (const auto& instruction : program[c].instructions) {
      if (instruction.op->role != Role::kCollective) continue;
      CollectiveNote note;
      note.collective = instruction.name;
      note.opcode = instruction.op->name;
      note.axes = attribute_or(instruction, "tessera.axes", kUnknownAxes);
      note.reason = attribute_or(instruction, kReasonAttribute, "stands in the input");
      note.source = instruction.source();
      note.from = attribute_or(instruction, kFromAttribute, "");
      note.to = attribute_or(instruction, kToAttribute, "");
      note.remedy = attribute_or(instruction, kRemedyAttribute, "");
      note.asked = instruction.frontend_attribute(kAskedAttribute) != nullptr;
      const std::int64_t bytes = collective_bytes(program[c], instruction, program.num_partitions);
      note.bytes = static_cast<std::int64_t>(static_cast<double>(bytes) * at(counts, c));
      constexpr double kMilliseconds = 1e3;
      note.milliseconds = seconds_of(program, instruction, note.axes, bytes, topology) * kMilliseconds * at(counts, c);
      notes.push_back(std::move(note));
    }
  }
  return notes;
}

}  // namespace tessera
