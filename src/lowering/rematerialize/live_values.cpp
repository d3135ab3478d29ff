// SPDX-License-Identifier: Apache-2.0
#include "rematerialize/live_values.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/collectives.h"

namespace tessera {
namespace {

constexpr double kStepSeconds = 1e-6;  // to start a step
constexpr double kProductFlops = 4;    // FLOPs for each element of the result, above which an op is a product
constexpr double kWideProductFlops = 128;

bool is_pure(const Instruction& instruction) {
  const Role role = instruction.op->role;
  const bool computes = role == Role::kPlain || role == Role::kConstant || role == Role::kCopy ||
                        role == Role::kOptBarrier || role == Role::kPartitionId;
  const bool exchanges = role == Role::kCollective && instruction.op->collective != CollectiveKind::kNone;
  return (computes || exchanges) && !has_side_effect(instruction);
}

double work_seconds(const OpView& view, const MachineModel& machine) {
  const double flops = flops_of(view);
  if (flops <= 0) return 0;
  const std::int64_t elements = view.result.is_array() ? view.result.element_count() : 0;
  const double each = flops / static_cast<double>(std::max<std::int64_t>(1, elements));
  const bool is_product = !view.op.elementwise && view.operands.size() >= 2 && each >= kProductFlops;
  const WorkClass work = !is_product                ? WorkClass::kOther
                         : each < kWideProductFlops ? WorkClass::kNarrowProduct
                                                    : WorkClass::kWideProduct;
  const Type& type = view.operands.empty() ? view.result : view.operands.front();
  return flops / machine.flops_per_second(type.is_array() ? type.dtype() : DType::kF32, work);
}

// All devices run the same program, so they all repeat a collective, and in the same order.
double exchange_seconds(const Instruction& instruction, const OpView& view, std::int64_t devices,
                        const MachineModel& machine) {
  if (instruction.op->role != Role::kCollective) return 0;
  std::int64_t operand = 0;
  for (const Type& type : view.operands) operand += type.byte_size();
  const Link& link = machine.links().other();
  const auto received = static_cast<double>(bytes_received(instruction, operand, view.result.byte_size(), devices));
  return link.latency_seconds * static_cast<double>(devices) + received / link.bytes_per_second;
}

class Finder {
 public:
  Finder(const Program& program, const Schedule& schedule, const MachineModel& machine, std::int64_t least_bytes)
      : program_(program),
        computation_(program[schedule.computation]),
        schedule_(schedule),
        machine_(machine),
        step_of_(computation_.instructions.size(), -1) {
    for (int t = 0; t < isize(schedule.steps); ++t)
      for (const Id id : at(schedule.steps, t).instructions) at(step_of_, id) = t;
    list_values(least_bytes);
    find_reads();
  }

  std::vector<LiveValue> run() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      LiveValue& value = values_[i];
      std::vector<int>& reads = reads_[i];
      std::sort(reads.begin(), reads.end());
      value.last_read = std::max(value.made, reads.empty() ? value.made : reads.back());
      int before = value.gap_begin = value.gap_end = value.made;
      for (const int read : reads) {
        if (read - before > value.gap_end - value.gap_begin) {
          value.gap_begin = before;
          value.gap_end = read;
        }
        before = std::max(before, read);
      }
      find_recomputation(value);
      find_offload(value);
    }
    return std::move(values_);
  }

 private:
  [[nodiscard]] const std::vector<Access>& access(Id id) const { return at(schedule_.access, id); }
  // The value that the access reads, or -1.
  [[nodiscard]] int value_at(const Access& access) const {
    const auto found = index_.find({access.source, access.source_leaf});
    return found == index_.end() ? -1 : found->second;
  }

  void list_values(std::int64_t least_bytes) {
    for (const Step& step : schedule_.steps)
      for (const Id id : step.instructions)
        for (int leaf = 0; leaf < isize(access(id)); ++leaf) {
          const Access& own = at(access(id), leaf);
          if (own.buffer == kNoBuffer || own.source != id || own.source_leaf != leaf) continue;
          if (at(schedule_.buffers, own.buffer).place != Place::kArena) continue;
          const std::int64_t bytes = at(computation_[id].type.leaves(), leaf).byte_size();
          if (bytes < least_bytes) continue;
          index_[{id, leaf}] = isize(values_);
          LiveValue value;
          value.id = id;
          value.leaf = leaf;
          value.bytes = bytes;
          value.made = at(step_of_, id);
          values_.push_back(std::move(value));
        }
    reads_.resize(values_.size());
  }

  void find_reads() {
    for (Id id = 0; id < computation_.size(); ++id) {
      if (at(step_of_, id) < 0) continue;
      for (const Id operand : computation_[id].operands)
        for (const Access& from : access(operand))
          if (const int value = value_at(from); value >= 0 && at(values_, value).id != id)
            at(reads_, value).push_back(at(step_of_, id));
    }
    for (const Access& from : access(computation_.root))
      if (const int value = value_at(from); value >= 0) at(reads_, value).push_back(isize(schedule_.steps));
  }

  // Whether the other leaves of the instruction, which are computed with this one, are much smaller.
  [[nodiscard]] bool is_main_leaf(const LiveValue& value) const {
    constexpr std::int64_t kMuch = 16;
    for (int leaf = 0; leaf < isize(access(value.id)); ++leaf)
      if (const auto found = index_.find({value.id, leaf}); leaf != value.leaf && found != index_.end())
        if (at(values_, found->second).bytes * kMuch > value.bytes) return false;
    return true;
  }

  // Lists the instructions from which the value is computed, back to values in memory.
  void find_recomputation(LiveValue& value) {
    boost::unordered_flat_set<Id> seen;
    boost::unordered_flat_set<int> inputs;
    value.is_recomputable = is_main_leaf(value);
    collect(value.id, value, seen, inputs);
    if (!value.is_recomputable) {
      value.instructions.clear();
      return;
    }
    value.inputs.assign(inputs.begin(), inputs.end());
    std::sort(value.inputs.begin(), value.inputs.end());
    std::sort(value.instructions.begin(), value.instructions.end());
    auto bytes = static_cast<double>(value.bytes);
    for (const int input : value.inputs) bytes += static_cast<double>(at(values_, input).bytes);
    value.seconds = kStepSeconds + bytes / machine_.memory_bytes_per_second();
    for (const Id id : value.instructions) {
      const OpView view = view_of(program_, computation_, computation_[id]);
      value.seconds +=
          work_seconds(view, machine_) + exchange_seconds(computation_[id], view, program_.num_partitions, machine_);
    }
  }

  void find_offload(LiveValue& value) {
    const Type& type = computation_[value.id].type;
    const bool is_flat = type.is_array() || type.leaf_count() == isize(type.elements());
    value.is_offloadable = is_flat && is_main_leaf(value);
    value.file_seconds = 2 * (kStepSeconds + static_cast<double>(value.bytes) / machine_.file_bytes_per_second());
  }

  void collect(Id id, LiveValue& value, boost::unordered_flat_set<Id>& seen, boost::unordered_flat_set<int>& inputs) {
    if (!value.is_recomputable || !seen.insert(id).second) return;
    const Instruction& instruction = computation_[id];
    value.is_recomputable = is_pure(instruction);
    value.instructions.push_back(id);
    for (const Id operand : instruction.operands) {
      bool is_in_memory = true;  // a parameter, a constant, a result, or in the arena
      for (const Access& leaf : access(operand)) {
        if (const int input = value_at(leaf); input >= 0) inputs.insert(input);
        is_in_memory &= leaf.buffer != kNoBuffer;
      }
      if (!is_in_memory) collect(operand, value, seen, inputs);
    }
  }

  const Program& program_;
  const Computation& computation_;
  const Schedule& schedule_;
  const MachineModel& machine_;
  std::vector<int> step_of_;
  std::vector<LiveValue> values_;
  std::vector<std::vector<int>> reads_;
  boost::unordered_flat_map<std::pair<Id, int>, int> index_;
};

}  // namespace

std::vector<LiveValue> find_live_values(const Program& program, const Schedule& schedule, const MachineModel& machine,
                                        std::int64_t least_bytes) {
  return Finder(program, schedule, machine, least_bytes).run();
}

}  // namespace tessera
