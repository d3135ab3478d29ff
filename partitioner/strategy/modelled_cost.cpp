// SPDX-License-Identifier: Apache-2.0
#include "strategy/modelled_cost.h"

#include "explain/explain.h"
#include "localize/realigned_reshape.h"
#include "propagation/op_signatures.h"
#include "propagation/propagate.h"
#include "strategy/windows.h"
#include "strategy/work_seconds.h"
#include "tessera/base/text.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"
#include "tessera/sharding/placement.h"

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

// The number of parts into which the devices divide an op's work: the size of all axes that shard operands or results.
double parts(const Shardings& operands, const Shardings& results) {
  Axes used;
  for (const auto* shardings : {&operands, &results})
    for (const Sharding& sharding : *shardings)
      for (const AxisRef& axis : sharding.used_axes())
        if (!overlaps_any(used, axis)) used.push_back(axis);
  return static_cast<double>(axes_size(used));
}

class SecondsModel {
 public:
  SecondsModel(const Program& program, const CostModel& cost) : program_(program), cost_(cost), signatures_(program) {}

  // Equal ops with equal shardings have equal costs.
  double seconds_of(const Computation& computation, const Instruction& instruction) {
    const auto role = instruction.op->role;
    if (role != Role::kCopy && role != Role::kPlain) return 0;
    const OpSignature& signature = signatures_.of(computation, instruction);
    key_ = {signature.id, shardings_.id_of(instruction.sharding)};
    for (const Id operand : instruction.operands)
      key_.push_back(computation[operand].sharding ? shardings_.id_of(computation[operand].sharding) : -1);
    const auto [entry, is_new] = known_.try_emplace(key_);
    if (is_new) {
      const Shardings operands = shardings_of(computation, instruction.operands);
      entry->second = role == Role::kCopy
                          ? of_copy(instruction.type, operands, instruction.sharding->front())
                          : of_op(signature, operands, *instruction.sharding) + of_borders(computation, instruction);
    }
    return entry->second;
  }

 private:
  [[nodiscard]] double of_copy(const Type& type, const Shardings& operands, const Sharding& result) const {
    if (!type.is_array() || operands.empty()) return 0;
    return cost_.machine.seconds_of_moved(reshard_cost(type, operands.front(), result, cost_.machine.links()));
  }

  [[nodiscard]] double of_borders(const Computation& computation, const Instruction& instruction) const {
    const auto reshape = realigned_reshape(computation, instruction);
    if (!reshape) return 0;
    return cost_.machine.seconds_of_moved(realign_cost(*reshape, instruction.type.dtype(), cost_.machine.links()));
  }

  [[nodiscard]] double of_op(const OpSignature& signature, const Shardings& operands, const Shardings& results) const {
    const std::vector<Type> types = operand_leaves(signature.view);
    const Topology& links = cost_.machine.links();
    const Strategy strategy = strategy_of(*signature.map, operands, results);
    double seconds = 0;
    if (!signature.map->windows.empty()) {
      const HaloCost halo = halo_cost(program_.meshes.front(), *signature.map, types, strategy, operands, links);
      seconds += cost_.machine.seconds_of_moved(links.is_uniform() ? static_cast<double>(halo.bytes) : halo.seconds);
    }
    const auto bytes = shard_bytes(types, operands) + shard_bytes(signature.view.result.leaves(), results);
    return seconds + work_seconds(signature.view, *signature.map, strategy,
                                  flops_of(signature.view) / parts(operands, results), static_cast<double>(bytes),
                                  cost_.machine);
  }

  const Program& program_;
  const CostModel& cost_;
  OpSignatures signatures_;
  SharedShardings shardings_;
  std::vector<int> key_;
  ByIds<double> known_;
};

}  // namespace

double program_seconds(const Program& program, const CostModel& cost) {
  if (program.meshes.empty()) return 0;
  const auto counts = run_counts(program);
  const auto used = partitioned_computations(program);
  SecondsModel model(program, cost);
  double sum = 0;
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    if (!at(used, c) || at(counts, c) == 0) continue;
    const auto& computation = program[c];
    double once = 0;
    for (Id id = 0; id < computation.size(); ++id)
      if (computation[id].sharding) once += model.seconds_of(computation, computation[id]);
    sum += once * at(counts, c);
  }
  return sum;
}

}  // namespace tessera
