// SPDX-License-Identifier: Apache-2.0
// Keeps 16-bit floats in f32 within a fused group: they are widened at the start of the group and rounded at its end,
// not at every op. Like XLA's excess precision, this is more accurate and needs fewer conversions.
#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>

#include "tessera/lowering/lowering.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

bool is_narrow(const Type& type) {
  return type.is_array() && (type.dtype() == DType::kBF16 || type.dtype() == DType::kF16);
}

// Whether this is an op on narrow numbers that can also be computed in f32.
bool can_widen(const Computation& computation, Id id) {
  const Instruction& instruction = computation[id];
  if (!instruction.op->elementwise || instruction.sharding || !instruction.control_predecessors.empty()) return false;
  if (instruction.op == &rows::kConvert || !is_narrow(instruction.type)) return false;
  return std::all_of(instruction.operands.begin(), instruction.operands.end(), [&](Id operand) {
    const Type& type = computation[operand].type;
    return type.dtype() == instruction.type.dtype() || type.dtype() == DType::kPred;
  });
}

// A program without such ops need not be scheduled.
bool has_narrow_ops(const Computation& computation) {
  for (Id id = 0; id < computation.size(); ++id)
    if (can_widen(computation, id)) return true;
  return false;
}

class GroupWidening {
 public:
  explicit GroupWidening(const Program& program)
      : computation_(program.entry_computation()), schedule_(make_schedule(program)) {
    step_of_.assign(computation_.instructions.size(), -1);
    for (int t = 0; t < isize(schedule_->steps); ++t)
      if (at(schedule_->steps, t).fused)
        for (const Id id : at(schedule_->steps, t).instructions) at(step_of_, id) = t;
    for (int t = 0; t < isize(schedule_->steps); ++t)
      if (const Step& step = at(schedule_->steps, t); step.fused && !pays(step, t))
        for (const Id id : step.instructions) at(step_of_, id) = -1;
  }
  [[nodiscard]] bool finds_any() const {
    for (Id id = 0; id < computation_.size(); ++id)
      if (at(step_of_, id) >= 0) return true;
    return false;
  }

  void rewrite(ComputationRewriter& rewriter) {
    for (Id id = 0; id < computation_.size(); ++id) {
      if (computation_[id].op->role == Role::kParameter) continue;
      if (at(step_of_, id) < 0) {
        rewriter.keep(id);
      } else if (widens(id)) {
        wide_[id] = in_f32(rewriter, id);
        rewriter.replace(id, rounded(rewriter, id));  // dead if it has no readers
      } else if (const auto already = is_widening(id); already && wide_.contains(*already)) {
        rewriter.replace(id, wide_.at(*already));
      } else {
        rewriter.keep(id);
      }
    }
  }

 private:
  [[nodiscard]] bool widens(Id id) const { return can_widen(computation_, id); }
  // The operand x if this is a conversion of a narrow x to f32.
  [[nodiscard]] std::optional<Id> is_widening(Id id) const {
    const Instruction& instruction = computation_[id];
    const bool is = instruction.op == &rows::kConvert && instruction.type.dtype() == DType::kF32 &&
                    is_narrow(computation_[instruction.operands[0]].type);
    return is ? std::optional(instruction.operands[0]) : std::nullopt;
  }
  [[nodiscard]] bool leaves(Id id) const { return at(schedule_->access, id).front().buffer != kNoBuffer; }
  // Whether this group computes the operand in f32.
  [[nodiscard]] bool is_from(Id operand, int step) const { return at(step_of_, operand) == step && widens(operand); }

  // Whether conversions at its boundary are fewer than those at every op.
  [[nodiscard]] bool pays(const Step& step, int number) const {
    int ops = 0;
    int boundary_conversions = 0;
    std::vector<Id> entering;
    for (const Id id : step.instructions) {
      if (!widens(id)) continue;
      ++ops;
      boundary_conversions += leaves(id) ? 1 : 0;
      for (const Id operand : computation_[id].operands)
        if (is_narrow(computation_[operand].type) && !is_from(operand, number) && !is_constant(operand) &&
            std::find(entering.begin(), entering.end(), operand) == entering.end())
          entering.push_back(operand);
    }
    return ops > boundary_conversions + isize(entering);
  }
  [[nodiscard]] bool is_constant(Id id) const {
    const Instruction& instruction = computation_[id];
    if (instruction.op == &rows::kBroadcast) return is_constant(instruction.operands[0]);
    return instruction.op->role == Role::kConstant;
  }

  Value in_f32(ComputationRewriter& rewriter, Id id) {
    Instruction made = rewriter.translated(id);
    for (std::size_t i = 0; i < made.operands.size(); ++i)
      if (const Id operand = computation_[id].operands[i]; is_narrow(computation_[operand].type))
        made.operands[i] = wide_operand(rewriter, operand, at(step_of_, id)).id;
    made.type = made.type.with_dtype(DType::kF32);
    return rewriter.builder().append(std::move(made));
  }
  Value wide_operand(ComputationRewriter& rewriter, Id operand, int step) {
    if (is_from(operand, step)) return wide_.at(operand);
    auto [place, is_new] = entered_.try_emplace({step, operand});
    if (!is_new) return place->second;
    const Instruction& instruction = computation_[operand];
    const bool is_repeated = instruction.op == &rows::kBroadcast;  // convert the source, not each copy
    const Value narrow = rewriter.mapped(is_repeated ? instruction.operands[0] : operand);
    Value wide = ops::convert(narrow, DType::kF32);
    if (is_repeated)
      wide = ops::broadcast(wide, instruction.type.dims(),
                            attributes_as<DimensionsAttributes>(instruction.attributes).dimensions);
    return place->second = wide;
  }
  Value rounded(ComputationRewriter& rewriter, Id id) const {
    const Value out = ops::convert(wide_.at(id), computation_[id].type.dtype());
    rewriter.builder().set_notes(out, computation_[id].notes);
    return out;
  }
  const Computation& computation_;
  std::shared_ptr<const Schedule> schedule_;
  std::vector<int> step_of_;                   // of fused instructions in groups for which this is worthwhile
  boost::unordered_flat_map<Id, Value> wide_;  // members in f32
  boost::unordered_flat_map<std::pair<int, Id>, Value> entered_;  // by step and operand
};

}  // namespace

std::optional<Program> fused_excess_precision(const Program& program) {
  if (!has_narrow_ops(program.entry_computation())) return std::nullopt;
  GroupWidening widening(program);
  if (!widening.finds_any()) return std::nullopt;
  const Computation* entry = &program.entry_computation();
  return remove_dead_code(rewrite_computations(
      program, [&](ComputationRewriter& rewriter) { widening.rewrite(rewriter); },
      [&](const Computation& computation) { return &computation == entry; }));
}

}  // namespace tessera
