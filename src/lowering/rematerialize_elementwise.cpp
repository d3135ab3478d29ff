// SPDX-License-Identifier: Apache-2.0
// Rematerializes elementwise values for later groups, if their operands are in memory anyway and computing them is less
// expensive than writing and reading them.
#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>

#include "tessera/lowering/lowering.h"
#include "tessera/ops/rows.h"
#include "tessera/passes/rewriter.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

// Costs in units of an inexpensive op on one element in the first-level cache.
constexpr double kExpensive = 4;          // exp, tanh, a division
constexpr double kMemory = 6;             // writing and reading one byte
constexpr std::int64_t kSmall = 1 << 16;  // in bytes; smaller values are not worthwhile

double cost_of(const Instruction& instruction) { return instruction.op->inexpensive ? 1 : kExpensive; }

class Recomputing {
 public:
  explicit Recomputing(const Program& program)
      : computation_(program.entry_computation()), schedule_(make_schedule(program)) {
    const auto count = computation_.instructions.size();
    step_of_.assign(count, -1);
    last_step_.assign(count, -1);
    is_marked_.assign(count, false);
    readers_.resize(count);
    const int end = isize(schedule_->steps);
    for (int t = 0; t < end; ++t)
      for (const Id id : at(schedule_->steps, t).instructions) at(step_of_, id) = t;
    for (Id id = 0; id < computation_.size(); ++id) {
      if (at(step_of_, id) < 0) continue;
      for (const Id operand : computation_[id].operands)
        for (const Access& access : at(schedule_->access, operand)) {
          at(last_step_, access.source) = std::max(at(last_step_, access.source), at(step_of_, id));
          at(readers_, access.source).push_back(id);
        }
    }
    for (const Access& access : at(schedule_->access, computation_.root)) at(last_step_, access.source) = end;
  }

  /// Returns whether there are values to rematerialize.
  bool find() {
    bool any = false;
    for (const Step& step : schedule_->steps) {
      if (!step.fused) continue;
      for (const Id id : step.instructions) {
        if (!is_worth_it(id)) continue;
        is_marked_[static_cast<std::size_t>(id)] = true;
        any = true;
      }
    }
    return any;
  }

  void rewrite(ComputationRewriter& rewriter) {
    for (Id id = 0; id < computation_.size(); ++id) {
      if (computation_[id].op->role == Role::kParameter) continue;
      const int step = at(step_of_, id);
      Instruction made = rewriter.translated(id);
      for (std::size_t i = 0; i < made.operands.size() && step >= 0; ++i) {
        const Id operand = computation_[id].operands[i];
        if (at(is_marked_, operand) && at(step_of_, operand) != step)
          made.operands[i] = again(rewriter, operand, step).id;
      }
      rewriter.replace(id, rewriter.builder().append(std::move(made)));
    }
  }

 private:
  [[nodiscard]] const Access& access(Id id) const { return at(schedule_->access, id).front(); }
  [[nodiscard]] bool is_fused(Id id) const {
    return at(step_of_, id) >= 0 && at(schedule_->steps, at(step_of_, id)).fused;
  }
  [[nodiscard]] bool is_elementwise(Id id) const {
    return is_fused(id) && computation_[id].op->elementwise && !computation_[id].sharding &&
           computation_[id].control_predecessors.empty();
  }

  // Whether the value is in memory only for groups that can rematerialize it.
  bool is_worth_it(Id id) const {
    const Type& type = computation_[id].type;
    if (!is_elementwise(id) || access(id).buffer == kNoBuffer || type.byte_size() < kSmall) return false;
    if (at(last_step_, id) >= isize(schedule_->steps)) return false;
    const double most = kMemory * static_cast<double>(dtype_size(type.dtype()));
    bool is_read_later = false;
    for (const Id reader : at(readers_, id)) {
      const int step = at(step_of_, reader);
      if (step == at(step_of_, id)) continue;
      is_read_later = true;
      const auto& operands = computation_[reader].operands;
      const bool is_plain = std::find(operands.begin(), operands.end(), id) != operands.end() &&
                            is_elementwise(reader) && computation_[reader].type.element_count() == type.element_count();
      double cost = 0;
      if (!is_plain || !can_make(id, step, most, cost)) return false;
    }
    return is_read_later;
  }

  // Adds the cost of computing `id` at a step.
  bool can_make(Id id, int step, double most, double& cost) const {
    cost += cost_of(computation_[id]);
    if (cost > most) return false;
    return std::all_of(computation_[id].operands.begin(), computation_[id].operands.end(), [&](Id operand) {
      if (is_there(operand, step)) return true;
      const bool expands = is_elementwise(operand) &&
                           computation_[operand].type.element_count() == computation_[id].type.element_count();
      return expands && can_make(operand, step, most, cost);
    });
  }
  // Whether the operand is in memory at that step or needs none.
  bool is_there(Id operand, int step) const {
    const Access& from = access(operand);
    const Role role = computation_[from.source].op->role;
    if (role == Role::kParameter || role == Role::kConstant) return true;
    if (from.buffer == kNoBuffer) return computation_[from.source].op == &rows::kIota;
    if (at(is_marked_, from.source)) return false;
    const bool is_small = computation_[from.source].type.byte_size() * 16 <= computation_[operand].type.byte_size();
    return is_small || at(last_step_, from.source) >= step;
  }

  Value again(ComputationRewriter& rewriter, Id id, int step) {
    if (const auto found = made_.find({step, id}); found != made_.end()) return rewriter.builder().value(found->second);
    Instruction made = rewriter.translated(id);
    for (std::size_t i = 0; i < made.operands.size(); ++i)
      if (const Id operand = computation_[id].operands[i]; !is_there(operand, step))
        made.operands[i] = again(rewriter, operand, step).id;
    const Value value = rewriter.builder().append(std::move(made));
    made_[{step, id}] = value.id;
    return value;
  }

  const Computation& computation_;
  std::shared_ptr<const Schedule> schedule_;
  std::vector<int> step_of_;
  std::vector<int> last_step_;            // the last step that reads it
  std::vector<std::vector<Id>> readers_;  // of the data, in steps
  std::vector<bool> is_marked_;
  boost::unordered_flat_map<std::pair<int, Id>, Id> made_;  // by step and old id
};

// Whether an array is large enough to be worth it. A small program has none, so it need not be scheduled.
bool has_large_values(const Computation& computation) {
  return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                     [](const Instruction& i) { return i.op->elementwise && i.type.byte_size() >= kSmall; });
}

}  // namespace

Program rematerialize_elementwise(const Program& program) {
  if (!has_large_values(program.entry_computation())) return program;
  Recomputing recomputing(program);
  if (!recomputing.find()) return program;
  const Computation* entry = &program.entry_computation();
  return rewrite_computations(
      program, [&](ComputationRewriter& rewriter) { recomputing.rewrite(rewriter); },
      [&](const Computation& computation) { return &computation == entry; });
}

}  // namespace tessera
