// SPDX-License-Identifier: Apache-2.0
#include "order.h"

#include <algorithm>
#include <deque>
#include "tessera/ops/rows.h"

namespace tessera::schedule {
namespace {

class Orderer {
 public:
  explicit Orderer(const Flow& flow) : flow_(flow), computation_(*flow.computation) {
    const std::size_t count = computation_.instructions.size();
    emitted_.assign(count, false);
    late_.assign(count, false);
    readers_left_.resize(flow.slots.size());
    for (std::size_t s = 0; s < flow.slots.size(); ++s) readers_left_[s] = isize(flow.consumers[s]);
    for (Id id = 0; id < computation_.size(); ++id) {
      at(late_, id) = is_late(id);
      if (at(flow_.in_memory, id)) largest_ = std::max(largest_, computation_[id].type.byte_size());
    }
  }

  std::vector<Id> run() {
    for (Id id = 0; id < computation_.size(); ++id) {
      if (!at(flow_.in_memory, id) || at(late_, id)) continue;
      emit(id);
      emit_what_frees();
    }
    for (Id id = 0; id < computation_.size(); ++id)  // read only by the root
      if (at(flow_.in_memory, id)) emit(id);
    return std::move(order_);
  }

 private:
  // Whether the instruction runs just before its first reader: it allocates memory, or prepares an operand of a late
  // instruction from values that are always in memory.
  bool is_late(Id id) const {
    const OpDef& op = *computation_[id].op;
    if (!at(flow_.in_memory, id) || at(flow_.has_effect, id)) return false;
    if (op.materializes || (op.takes_a_part && is_of_parameters(id))) return true;
    if (at(flow_.kinds, id) != OpKind::kElementwise) return false;
    const bool is_cast = &op == &rows::kConvert;
    return std::all_of(at(flow_.reads, id).begin(), at(flow_.reads, id).end(), [&](int slot) {
      const Id source = at(flow_.slots, slot).id;
      const OpKind kind = at(flow_.kinds, source);
      return at(late_, source) || kind == OpKind::kConstant || (is_cast && kind == OpKind::kParameter);
    });
  }

  // Whether all large operands are parameters, which stay in memory anyway.
  bool is_of_parameters(Id id) const {
    const std::int64_t bytes = computation_[id].type.byte_size();
    return std::all_of(at(flow_.reads, id).begin(), at(flow_.reads, id).end(), [&](int slot) {
      const Slot& read = at(flow_.slots, slot);
      return read.type.byte_size() < bytes || at(flow_.kinds, read.id) == OpKind::kParameter;
    });
  }

  void emit(Id id) {
    if (at(emitted_, id)) return;
    at(emitted_, id) = true;
    for (const Id before : at(flow_.waits, id)) emit(before);
    for (const int slot : at(flow_.reads, id)) {
      const Id source = at(flow_.slots, slot).id;
      if (at(flow_.in_memory, source)) emit(source);
    }
    order_.push_back(id);
    for (const int slot : at(flow_.reads, id)) --at(readers_left_, slot);
    fresh_.push_back(id);
  }

  void emit_what_frees() {
    while (!fresh_.empty()) {
      const Id id = fresh_.front();
      fresh_.pop_front();
      const auto [first, last] = flow_.slot_range(id);
      for (int s = first; s < last; ++s) try_readers(s);
      for (const int s : at(flow_.reads, id))
        if (at(readers_left_, s) == 1) try_readers(s);
    }
  }
  void try_readers(int slot) {
    if (at(flow_.is_result, slot)) return;
    for (const Id reader : at(flow_.consumers, slot))
      if (!at(emitted_, reader) && is_ready(reader) && frees(reader)) emit(reader);
  }
  bool is_ready(Id id) const {
    const auto done = [&](Id other) { return !at(flow_.in_memory, other) || at(emitted_, other); };
    return std::all_of(at(flow_.waits, id).begin(), at(flow_.waits, id).end(), done) &&
           std::all_of(at(flow_.reads, id).begin(), at(flow_.reads, id).end(),
                       [&](int slot) { return done(at(flow_.slots, slot).id); });
  }
  // Values in a file use no memory.
  bool is_in_file(Id id) const { return computation_[id].op->file_transfer == FileTransfer::kWrite; }
  bool frees(Id id) const {
    if (at(flow_.has_effect, id)) return false;
    Checked freed = 0;
    // Sums of long rows are small compared with them, and may be in a group with later instructions.
    constexpr std::int64_t kLongRow = 64;
    for (const int slot : at(flow_.reads, id)) {
      const Slot& source = at(flow_.slots, slot);
      if (columns_of(at(flow_.views, source.id)) >= kLongRow) continue;
      const bool holds_memory = at(flow_.in_memory, source.id) && !is_in_file(source.id);
      if (holds_memory && at(readers_left_, slot) == 1 && !at(flow_.is_result, slot)) freed += source.type.byte_size();
    }
    // Freeing little memory is not worth separating instructions that could run together.
    constexpr std::int64_t kLittle = 4096;
    const std::int64_t taken = is_in_file(id) ? 0 : computation_[id].type.byte_size();
    return freed.value_or_most() > largest_ / kLittle && freed.value_or_most() >= taken;
  }

  const Flow& flow_;
  const Computation& computation_;
  std::int64_t largest_ = 0;  // bytes of the largest value
  std::vector<bool> emitted_;
  std::vector<bool> late_;
  std::vector<int> readers_left_;  // per origin slot
  std::vector<Id> order_;
  std::deque<Id> fresh_;
};

}  // namespace

std::vector<Id> order_of(const Flow& flow, bool reorder) {
  if (reorder) return Orderer(flow).run();
  std::vector<Id> order;
  for (Id id = 0; id < flow.computation->size(); ++id)
    if (at(flow.in_memory, id)) order.push_back(id);
  return order;
}

}  // namespace tessera::schedule

namespace tessera {

std::vector<Id> order_instructions(const Program& program, const Computation& computation) {
  const auto flow = schedule::analyze_flow(program, computation, {});
  std::vector<Id> order;
  std::vector<bool> placed(computation.instructions.size(), false);
  // Instructions that run no code are placed before their first reader.
  const auto place = [&](auto& self, Id id) -> void {
    if (at(placed, id)) return;
    at(placed, id) = true;
    for (const Id before : computation[id].control_predecessors) self(self, before);
    for (const Id operand : computation[id].operands) self(self, operand);
    order.push_back(id);
  };
  for (const Id id : computation.parameters) place(place, id);
  for (const Id id : schedule::order_of(flow, true)) place(place, id);
  for (Id id = 0; id < computation.size(); ++id) place(place, id);
  return order;
}

}  // namespace tessera
