// SPDX-License-Identifier: Apache-2.0
#include "loops/rows.h"

#include <algorithm>
#include <optional>
#include <set>

#include "tessera/ops/control_flow.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera::schedule {
namespace {

class RowFinder {
 public:
  RowFinder(const Flow& flow, const std::vector<int>& step_of, const std::vector<int>& parameters,
            const std::vector<int>& results)
      : flow_(flow), computation_(*flow.computation), step_of_(step_of), parameters_(parameters), results_(results) {}

  std::vector<Row> run() {
    for (Id id = 0; id < computation_.size(); ++id) {
      if (!at(flow_.in_memory, id)) continue;
      if (computation_[id].op == &rows::kDynamicSlice) add_read(id);
      if (computation_[id].op == &rows::kDynamicUpdateSlice) add_write(id);
    }
    return std::move(rows_);
  }

 private:
  // The leaf of the state whose value before the body is the operand, or -1.
  [[nodiscard]] int leaf_of(Id operand) const {
    const Slot& slot = flow_.slot(operand);
    const auto found = std::find(parameters_.begin(), parameters_.end(), slot.origin);
    return slot.view || found == parameters_.end() ? -1 : static_cast<int>(found - parameters_.begin());
  }

  // The row that an op with these sizes accesses, if it is contiguous.
  [[nodiscard]] Row row_of(Id access, const Type& part, int first_index) const {
    const auto& operands = computation_[access].operands;
    const Type& stack = computation_[operands.front()].type;
    const Id number = at(operands, first_index);
    const Slot& index = flow_.slot(number);
    bool contiguous = stack.ndim() >= 1 && part.byte_size() > 0 && computation_[number].type.dtype() == DType::kS32;
    for (int d = 1; d < stack.ndim(); ++d) contiguous = contiguous && part.dim(d) == stack.dim(d);
    if (!contiguous || index.view || flow_.is_recomputed(index.origin)) return {};
    Row row;
    row.stack = flow_.slot(operands.front()).origin;
    row.index = index.origin;
    row.access = access;
    row.stride = part.byte_size() / part.dim(0);
    row.last = stack.dim(0) - part.dim(0);
    return row;
  }

  void add_read(Id id) {
    const int leaf = leaf_of(computation_[id].operands.front());
    if (leaf < 0 || at(flow_.slots, at(results_, leaf)).origin != at(parameters_, leaf)) return;
    Row row = row_of(id, computation_[id].type, 1);
    if (row.stack < 0) return;
    row.slot = at(flow_.first_slot, id);
    row.step = at(step_of_, id);
    if (is_available(row)) add(row);
  }

  void add_write(Id id) {
    const auto& operands = computation_[id].operands;
    const int leaf = leaf_of(operands.front());
    const Slot& update = flow_.slot(operands[1]);
    const bool fits = leaf >= 0 && at(flow_.slots, at(results_, leaf)).origin == at(flow_.first_slot, id) &&
                      at(flow_.consumers, at(parameters_, leaf)) == std::vector<Id>{id} && is_free(update);
    if (!fits) return;
    Row row = row_of(id, computation_[operands[1]].type, 2);
    if (row.stack < 0) return;
    row.slot = update.origin;
    row.step = at(step_of_, at(flow_.slots, update.origin).id);
    if (row.step < at(step_of_, id) && is_available(row)) add(row);
  }

  // Whether the value can be computed in another place: it is no value of the caller and no result.
  [[nodiscard]] bool is_free(const Slot& value) const {
    const Slot& origin = at(flow_.slots, value.origin);
    return !value.view && at(flow_.in_memory, origin.id) && !at(flow_.is_result, value.origin) &&
           value.type.byte_size() == origin.type.byte_size() && computation_[origin.id].called.empty() &&
           !computation_[origin.id].op->updates_operand_in_place;
  }
  [[nodiscard]] bool is_available(const Row& row) const {
    const Id maker = at(flow_.slots, row.index).id;
    return !at(flow_.in_memory, maker) || at(step_of_, maker) < row.step;
  }
  void add(const Row& row) {
    if (taken_.insert(row.slot).second) rows_.push_back(row);
  }

  const Flow& flow_;
  const Computation& computation_;
  const std::vector<int>& step_of_;
  const std::vector<int>& parameters_;
  const std::vector<int>& results_;
  std::set<int> taken_;
  std::vector<Row> rows_;
};

std::optional<std::int64_t> scalar_of(const Computation& computation, Id id) {
  const Literal* value = known_constant(computation[id]);
  const Type& type = computation[id].type;
  if (value == nullptr || !type.is_array() || type.ndim() != 0 || type.dtype() != DType::kS32) return std::nullopt;
  return element_as_int(*value, 0);
}

// The element of the parameter that an instruction is, or -1.
int element_of(const Computation& body, Id id) {
  const Instruction& instruction = body[id];
  const bool is_element =
      instruction.op->role == Role::kGetTupleElement && body[instruction.operands.front()].op->role == Role::kParameter;
  return is_element ? static_cast<int>(attributes_as<IndexAttributes>(instruction.attributes).index) : -1;
}

// Whether the index is i or n - 1 - i.
bool visits_all(const Computation& body, Id index, const CountedLoop& loop) {
  if (loop.start != 0 || loop.step != 1) return false;
  if (element_of(body, index) == loop.element) return true;
  const Instruction& instruction = body[index];
  return instruction.op == &rows::kSubtract && element_of(body, instruction.operands[1]) == loop.element &&
         scalar_of(body, instruction.operands[0]) == loop.trips - 1;
}

// Whether the body only writes one row of element e of the state, another one in each iteration.
bool fills(const Computation& body, const CountedLoop& loop, int e) {
  if (body[body.root].op->role != Role::kTuple) return false;
  const Instruction& write = body[at(body[body.root].operands, e)];
  if (write.op != &rows::kDynamicUpdateSlice || element_of(body, write.operands[0]) != e) return false;
  const Type& stack = write.type;
  const Type& row = body[write.operands[1]].type;
  if (stack.ndim() == 0 || row.dim(0) != 1 || stack.dim(0) != loop.trips) return false;
  for (int d = 1; d < stack.ndim(); ++d)
    if (row.dim(d) != stack.dim(d)) return false;
  int reads = 0;
  for (Id id = 0; id < body.size(); ++id)
    for (const Id operand : body[id].operands) reads += element_of(body, operand) == e ? 1 : 0;
  return reads == 1 && visits_all(body, write.operands[2], loop);
}

}  // namespace

std::vector<Row> find_rows(const Flow& flow, const std::vector<int>& step_of, const std::vector<int>& parameters,
                           const std::vector<int>& results) {
  return RowFinder(flow, step_of, parameters, results).run();
}

std::vector<Id> unread_stacks(const Flow& flow) {
  const Computation& computation = *flow.computation;
  std::vector<bool> is_needed(computation.instructions.size(), false);
  std::vector<bool> is_filled(computation.instructions.size(), false);
  const auto need = [&](Id id) {
    const auto [first, last] = flow.slot_range(id);
    for (int s = first; s < last; ++s)
      is_needed[static_cast<std::size_t>(at(flow.slots, at(flow.slots, s).origin).id)] = true;
  };
  for (Id id = 0; id < computation.size(); ++id) {
    const Instruction& instruction = computation[id];
    if (instruction.op->role == Role::kTuple && id != computation.root) continue;
    const bool is_loop =
        instruction.op->role == Role::kWhile && computation[instruction.operands.front()].op->role == Role::kTuple;
    if (!is_loop) {
      for (const Id operand : instruction.operands) need(operand);
      continue;
    }
    const auto loop = counted_loop(*flow.program, computation, instruction);
    const Instruction& init = computation[instruction.operands.front()];
    for (int e = 0; e < isize(init.operands); ++e) {
      const Id operand = at(init.operands, e);
      if (loop && fills((*flow.program)[instruction.called.back()], *loop, e))
        is_filled[static_cast<std::size_t>(operand)] = true;
      else
        need(operand);
    }
  }
  std::vector<Id> out;
  for (Id id = 0; id < computation.size(); ++id)
    if (at(is_filled, id) && !at(is_needed, id) && at(flow.in_memory, id) &&
        computation[id].op->movement == Movement::kBroadcast)
      out.push_back(id);
  return out;
}

}  // namespace tessera::schedule
