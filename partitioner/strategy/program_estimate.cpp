// SPDX-License-Identifier: Apache-2.0
#include "strategy/program_estimate.h"

#include <algorithm>

#include "explain/explain.h"
#include "localize/realigned_reshape.h"
#include "normalize/duplicate_cheap_values.h"
#include "propagation/propagate.h"
#include "strategy/strategy.h"
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

Type local_type(const Type& type, const Sharding& sharding) {
  return type.is_array() ? shard_type(type, sharding.without_partial()) : type;
}

std::int64_t local_bytes(const Type& type, const ShardingRef& shardings) {
  if (!shardings) return 0;
  if (type.is_array()) return shardings->empty() ? 0 : local_type(type, shardings->front()).byte_size();
  const std::vector<Type> leaves = type.leaves();
  std::int64_t sum = 0;
  for (int i = 0; i < isize(leaves) && i < isize(*shardings); ++i)
    if (at(leaves, i).is_array()) sum += local_type(at(leaves, i), at(*shardings, i)).byte_size();
  return sum;
}

// The part of a value on one device. `next` is the sharding of its first leaf, and becomes that of the next value.
Type local_part(const Type& type, Shardings::const_iterator& next) {
  if (!type.is_tuple()) return local_type(type, *next++);
  std::vector<Type> elements;
  for (const Type& element : type.elements()) elements.push_back(local_part(element, next));
  return Type::tuple(std::move(elements));
}

// The op on the shards of one device.
OpView local_view(const OpView& view, const Shardings& operands, const Shardings& results) {
  OpView out = view;
  if (isize(operands) != isize(operand_leaves(view)) || isize(results) != view.result.leaf_count()) return out;
  auto next = operands.begin();
  for (Type& operand : out.operands) operand = local_part(operand, next);
  next = results.begin();
  out.result = local_part(out.result, next);
  return out;
}

// The elements that a device masks at the ends of sharded dims with windows: the result, once for each such dim.
double masked_elements(const FactorMap& map, const Strategy& strategy, const Type& local_result) {
  double out = 0;
  for (const Window& window : map.windows)
    if (tiles_of(strategy, window.factor) > 1 && local_result.is_array())
      out += static_cast<double>(local_result.element_count());
  return out;
}

// Whether the result is a part of its operands' memory.
bool is_alias(const Instruction& instruction) {
  const Role role = instruction.op->role;
  return role == Role::kTuple || role == Role::kGetTupleElement || role == Role::kOptBarrier ||
         role == Role::kShardingMark;
}

}  // namespace

// The memory in use along the instructions of one computation.
class ProgramEstimator::Lives {
 public:
  explicit Lives(const Computation& computation)
      : computation_(computation),
        last_(computation.instructions.size(), -1),
        is_fused_(computation.instructions.size(), false),
        freed_(computation.instructions.size() + 1, 0) {
    std::vector<int> users(computation.instructions.size(), 0);
    std::vector<Id> user(computation.instructions.size(), -1);
    at(last_, computation.root) = computation.size();
    for (Id id = computation.size() - 1; id >= 0; --id) {
      if (!is_needed(id)) continue;
      at(is_fused_, id) = is_fused(id, at(users, id) == 1 ? at(user, id) : -1);
      const Id until = is_alias(computation[id]) || at(is_fused_, id) ? at(last_, id) : id;
      for (const Id operand : computation[id].operands) {
        at(last_, operand) = std::max(at(last_, operand), until);
        ++at(users, operand);
        at(user, operand) = id;
      }
    }
  }
  /// Whether another instruction, or an effect, needs this one.
  [[nodiscard]] bool is_needed(Id id) const { return at(last_, id) >= 0 || has_side_effect(computation_[id]); }
  void run(Id id, std::int64_t result, std::int64_t scratch) {
    const Instruction& instruction = computation_[id];
    const bool has_memory = instruction.op->role != Role::kParameter && !is_alias(instruction) && !at(is_fused_, id);
    const std::int64_t made = has_memory ? result : 0;
    const bool in_place = instruction.op->elementwise && at(freed_, id) >= made;
    peak_ = std::max(peak_, live_ + (in_place ? 0 : made) + scratch);
    live_ += made - at(freed_, id);
    at(freed_, std::max(id + 1, at(last_, id))) += made;
  }
  [[nodiscard]] std::int64_t peak() const { return peak_; }

 private:
  // Elementwise ops run in groups, in which a value with one consumer has no memory.
  [[nodiscard]] bool is_fused(Id id, Id only_user) const {
    const Instruction& instruction = computation_[id];
    if (is_rematerializable(computation_, instruction)) return true;
    return instruction.op->elementwise && only_user >= 0 && computation_[only_user].op->elementwise;
  }

  const Computation& computation_;
  std::vector<Id> last_;  // the last instruction that reads a value; -1 if nothing reads it
  std::vector<bool> is_fused_;
  std::vector<std::int64_t> freed_;  // by instruction: the bytes that nothing reads after it
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
};

ProgramEstimator::OpCost ProgramEstimator::of_copy(const Type& type, const Sharding& from, const Sharding& to) const {
  OpCost out;
  if (!type.is_array()) return out;
  const Topology& links = machine_.links();
  out.moved = reshard_cost(type, from, to, links);
  out.seconds = machine_.seconds_of_moved(out.moved);
  const std::int64_t both = local_type(type, from).byte_size() + local_type(type, to).byte_size();
  if (out.moved > 0) out.scratch = std::max<std::int64_t>(0, plan_reshard(type, from, to, links).peak() - both);
  return out;
}

ProgramEstimator::OpCost ProgramEstimator::of_op(const Mesh& mesh, const OpSignature& signature,
                                                 const Shardings& operands, const Shardings& results) const {
  OpCost out;
  const OpView& view = signature.view;
  const Topology& links = machine_.links();
  const Strategy strategy = strategy_of(*signature.map, operands, results);
  if (!signature.map->windows.empty()) {
    const HaloCost halo = halo_cost(mesh, *signature.map, operand_leaves(view), strategy, operands, links);
    out.moved = links.is_uniform() ? static_cast<double>(halo.bytes) : halo.seconds;
    out.scratch = out.moved > 0 ? halo.operand_bytes : 0;
  }
  const OpView local = local_view(view, operands, results);
  out.work = flops_of(local) + (out.moved > 0 ? masked_elements(*signature.map, strategy, local.result) : 0);
  std::int64_t touched = 0;
  for (const Type& type : operand_leaves(local))
    if (type.is_array()) touched += type.byte_size();
  for (const Type& type : local.result.leaves())
    if (type.is_array()) touched += type.byte_size();
  out.seconds = machine_.seconds_of_moved(out.moved) +
                work_seconds(view, *signature.map, strategy, out.work, static_cast<double>(touched), machine_);
  return out;
}

ProgramEstimator::OpCost ProgramEstimator::cost_of(const Program& program, const Computation& computation,
                                                   const Instruction& instruction) {
  const Role role = instruction.op->role;
  if (!instruction.sharding) return {};
  if (role != Role::kCopy && role != Role::kPlain)
    return {.result = local_bytes(instruction.type, instruction.sharding)};
  const OpSignature& signature = signatures_.of(program, computation, instruction);
  key_ = {signature.id, shardings_.id_of(instruction.sharding)};
  for (const Id operand : instruction.operands)
    key_.push_back(computation[operand].sharding ? shardings_.id_of(computation[operand].sharding) : -1);
  const auto [entry, is_new] = known_.try_emplace(key_);
  if (!is_new) return entry->second;
  const Shardings operands = shardings_of(computation, instruction.operands);
  OpCost& cost = entry->second;
  if (role == Role::kPlain) {
    cost = of_op(program.meshes.front(), signature, operands, *instruction.sharding);
    if (const auto reshape = realigned_reshape(computation, instruction)) {
      const double moved = realign_cost(*reshape, instruction.type.dtype(), machine_.links());
      cost.moved += moved;
      cost.seconds += machine_.seconds_of_moved(moved);
    }
  } else if (!operands.empty()) {
    cost = of_copy(instruction.type, operands.front(), instruction.sharding->front());
  }
  cost.result = local_bytes(instruction.type, instruction.sharding);
  return cost;
}

std::int64_t ProgramEstimator::add(const Program& program, ComputationId id, double times,
                                   const std::vector<std::int64_t>& peaks, ProgramEstimate& out) {
  const Computation& computation = program[id];
  Lives lives(computation);
  for (Id i = 0; i < computation.size(); ++i) {
    if (!lives.is_needed(i)) continue;
    const Instruction& instruction = computation[i];
    OpCost cost = cost_of(program, computation, instruction);
    for (const ComputationId callee : instruction.called) cost.scratch = std::max(cost.scratch, at(peaks, callee));
    lives.run(i, cost.result, cost.scratch);
    out.moved += cost.moved * times;
    out.work += cost.work * times;
    out.seconds += cost.seconds * times;
  }
  return lives.peak();
}

ProgramEstimate ProgramEstimator::of(const Program& program) {
  ProgramEstimate out;
  if (program.meshes.empty()) return out;
  const auto counts = run_counts(program);
  const auto used = partitioned_computations(program);
  std::vector<std::int64_t> peaks(program.computations.size(), 0);  // callees come first
  for (ComputationId c = 0; c < isize(program.computations); ++c)
    if (at(used, c) && at(counts, c) > 0) at(peaks, c) = add(program, c, at(counts, c), peaks, out);
  out.peak_bytes = at(peaks, program.entry);
  const Computation& entry = program.entry_computation();
  for (const Id parameter : entry.parameters)
    out.peak_bytes += local_bytes(entry[parameter].type, entry[parameter].sharding);
  return out;
}

}  // namespace tessera
