// SPDX-License-Identifier: Apache-2.0
#include "modelled_cost.h"

#include "explain.h"
#include "propagate.h"
#include "tessera/base/text.h"
#include "tessera/partitioner/plan_reshard.h"
#include "tessera/sharding/placement.h"
#include "windows.h"

namespace tessera {
namespace {

Shardings shardings_of(const Computation& computation, const std::vector<Id>& values) {
  Shardings out;
  for (const Id id : values)
    if (const auto& leaves = computation[id].sharding) out.insert(out.end(), leaves->begin(), leaves->end());
  return out;
}

std::int64_t shard_bytes(const std::vector<Type>& types, const Shardings& shardings) {
  std::int64_t sum = 0;
  for (int i = 0; i < isize(types) && i < isize(shardings); ++i)
    if (at(types, i).is_array()) sum += shard_type(at(types, i), at(shardings, i).without_partial()).byte_size();
  return sum;
}

// Into how many parts the devices cut an op: by every axis that tells operands or results apart.
double parts(const Shardings& operands, const Shardings& results) {
  Axes used;
  for (const auto* shardings : {&operands, &results})
    for (const Sharding& sharding : *shardings)
      for (const AxisRef& axis : sharding.used_axes())
        if (!overlaps_any(used, axis)) used.push_back(axis);
  return static_cast<double>(axes_size(used));
}

double seconds_of(const Program& program, const Computation& computation, const Instruction& instruction,
                  const CostModel& cost) {
  const OpView view = view_of(program, computation, instruction);
  const Shardings operands = shardings_of(computation, instruction.operands);
  const Shardings& results = *instruction.sharding;
  const std::vector<Type> types = operand_leaves(view);
  const double bandwidth = cost.topology.other().bytes_per_second;
  if (instruction.op->role == Role::kCopy) {
    if (!instruction.type.is_array() || operands.empty()) return 0;
    const double moved = reshard_cost(instruction.type, operands.front(), results.front(), cost.topology);
    return cost.topology.is_uniform() ? moved / bandwidth : moved;
  }
  if (instruction.op->role != Role::kPlain) return 0;
  double seconds = 0;
  const FactorMap map = factor_map(view);
  if (!map.windows.empty()) {
    const HaloCost halo =
        halo_cost(program.meshes.front(), map, types, strategy_of(map, operands, results), cost.topology);
    seconds += cost.topology.is_uniform() ? static_cast<double>(halo.bytes) / bandwidth : halo.seconds;
  }
  const auto bytes = shard_bytes(types, operands) + shard_bytes(view.result.leaves(), results);
  return seconds + flops_of(view) / parts(operands, results) / cost.flops_per_second +
         static_cast<double>(bytes) / cost.memory_bytes_per_second;
}

}  // namespace

double modelled_seconds(const Program& program, const CostModel& cost) {
  if (program.meshes.empty()) return 0;
  const auto counts = run_counts(program);
  const auto used = partitioned_computations(program);
  double sum = 0;
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    if (!at(used, c) || at(counts, c) == 0) continue;
    const auto& computation = program[c];
    double once = 0;
    for (Id id = 0; id < computation.size(); ++id)
      if (computation[id].sharding) once += seconds_of(program, computation, computation[id], cost);
    sum += once * at(counts, c);
  }
  return sum;
}

}  // namespace tessera
