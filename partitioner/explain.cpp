// SPDX-License-Identifier: Apache-2.0
#include "explain.h"

#include <algorithm>

#include "insert_reshards.h"
#include "tessera/base/text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/control_flow.h"

namespace tessera {
namespace {

// Modelled as in strategy.h: equal links of 10 GB/s, no latency.
constexpr double kBytesPerMillisecond = 1e7;

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

std::vector<CollectiveNote> collective_notes(const Program& program) {
  std::vector<CollectiveNote> notes;
  const auto counts = run_counts(program);
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    if (at(counts, c) == 0) continue;
    for (const auto& instruction : program[c].instructions) {
      if (instruction.op->role != Role::kCollective) continue;
      CollectiveNote note;
      note.collective = instruction.name;
      note.opcode = instruction.op->name;
      note.axes = attribute_or(instruction, "tessera.axes", "?");
      note.reason = attribute_or(instruction, kReasonAttribute, "stands in the input");
      note.source = instruction.source();
      note.from = attribute_or(instruction, kFromAttribute, "");
      note.to = attribute_or(instruction, kToAttribute, "");
      note.remedy = attribute_or(instruction, kRemedyAttribute, "");
      note.bytes = static_cast<std::int64_t>(
          static_cast<double>(collective_bytes(program[c], instruction, program.num_partitions)) * at(counts, c));
      note.milliseconds = static_cast<double>(note.bytes) / kBytesPerMillisecond;
      notes.push_back(std::move(note));
    }
  }
  return notes;
}

}  // namespace tessera
