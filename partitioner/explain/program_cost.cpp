// SPDX-License-Identifier: Apache-2.0
// The modelled time and the peak memory of a per-device program.
#include "explain/explain.h"
#include "normalize/duplicate_cheap_values.h"
#include "strategy/work_seconds.h"
#include "tessera/passes/passes.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

std::int64_t array_bytes(const Type& type) {
  std::int64_t bytes = 0;
  for (const Type& leaf : type.leaves())
    if (leaf.is_array()) bytes += leaf.byte_size();
  return bytes;
}

// Elementwise ops run in fused groups, which write only the results that other ops read.
double touched_bytes(const OpView& view, bool is_written) {
  std::int64_t bytes = is_written ? array_bytes(view.result) : 0;
  if (!view.op.elementwise)
    for (const Type& operand : view.operands) bytes += array_bytes(operand);
  return static_cast<double>(bytes);
}

// By instruction: whether its result is written to memory.
std::vector<bool> written_results(const Computation& computation) {
  std::vector<bool> out(computation.instructions.size(), false);
  at(out, computation.root) = true;
  for (const Instruction& instruction : computation.instructions)
    if (!instruction.op->elementwise)
      for (const Id operand : instruction.operands) at(out, operand) = true;
  for (Id id = 0; id < computation.size(); ++id)
    if (!computation[id].op->elementwise) at(out, id) = true;
  return out;
}

}  // namespace

double modelled_seconds(const Program& scheduled, const MachineModel& machine) {
  const Program program = with_groups_of_devices(make_synchronous(scheduled));
  const auto counts = run_counts(program);
  double sum = 0;
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    double once = 0;
    if (at(counts, c) == 0) continue;
    const std::vector<bool> is_written = written_results(program[c]);
    for (Id id = 0; id < program[c].size(); ++id) {
      const Instruction& instruction = program[c][id];
      if (instruction.op->role == Role::kCollective)
        once += collective_seconds(program, program[c], instruction, machine.links());
      if (instruction.op->role != Role::kPlain || is_rematerializable(program[c], instruction)) continue;
      const OpView view = view_of(program, program[c], instruction);
      if (view.op.file_transfer != FileTransfer::kNone)
        once += static_cast<double>(view.result.byte_size()) / machine.file_bytes_per_second();
      once +=
          work_seconds(view, factor_map(view), {}, flops_of(view), touched_bytes(view, at(is_written, id)), machine);
    }
    sum += once * at(counts, c);
  }
  return sum;
}

Cost program_cost(const Program& program, const MachineModel& machine) {
  return {modelled_seconds(program, machine), program_stats(program).peak_bytes_per_device};
}

}  // namespace tessera
