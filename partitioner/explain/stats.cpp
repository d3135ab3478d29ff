// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "explain/explain.h"
#include "tessera/base/checked.h"
#include "tessera/base/text.h"
#include "tessera/lowering/execution_plan.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/passes/passes.h"

namespace tessera {

namespace {

// All statistics except memory, for a program with synchronous collectives.
ProgramStats counted(const Program& program) {
  ProgramStats stats;
  stats.num_partitions = program.num_partitions;
  const auto counts = known_run_counts(program);
  std::map<std::string, ProgramStats::Kind> kinds;
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    const double times = at(counts, c).times;
    if (times == 0) continue;
    for (const auto& instruction : program[c].instructions) {
      stats.flops_per_device += flops_of(view_of(program, program[c], instruction)) * times;
      if (instruction.op->role != Role::kCollective) continue;
      auto& kind = kinds[std::string(instruction.op->name)];
      kind.opcode = instruction.op->name;
      ++kind.count;
      kind.runs += times;
      kind.runs_known &= at(counts, c).is_known;
      const std::int64_t devices = program.num_partitions * program.replica_count;
      const auto once = static_cast<double>(collective_bytes(program[c], instruction, devices));
      kind.bytes = (Checked(kind.bytes) + saturated(once * times)).value_or_most();
    }
  }
  for (auto& [name, kind] : kinds) {
    stats.total_collective_bytes = (Checked(stats.total_collective_bytes) + kind.bytes).value_or_most();
    stats.collectives.push_back(std::move(kind));
  }
  return stats;
}

}  // namespace

ProgramStats program_stats(const Program& scheduled) {
  const Program program = with_groups_of_devices(make_synchronous(scheduled));  // start and done count once
  ProgramStats stats = counted(program);
  stats.peak_bytes_per_device = peak_bytes(program);
  return stats;
}

ProgramStats execution_stats(const Program& program, const ExecutionOptions& options) {
  const ExecutionPlan plan = plan_execution(program, options);
  ProgramStats stats = counted(plan.program);
  stats.peak_bytes_per_device = plan.schedule->peak_bytes();
  return stats;
}

ProgramStats execution_stats(const Program& program) {
  return execution_stats(program,
                         ExecutionOptions::for_plan(static_cast<int>(program.num_partitions * program.replica_count)));
}

}  // namespace tessera
