// SPDX-License-Identifier: Apache-2.0
// Turns a fused step of the schedule into a tile program: chooses the slot of each value and the function that computes
// it.
#include "fusion/fused_kernel.h"

#include <algorithm>
#include <boost/dynamic_bitset.hpp>
#include <map>

#include "fusion/accumulator.h"
#include "fusion/philox_fusion.h"
#include "fusion/tile_program.h"
#include "fusion/tile_registers.h"
#include "kernels/strided.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

using kernels::KernelSet;
using kernels::TileFunction;

constexpr const OpDef* kUnaryRows[] = {
#define TESSERA_ROW(word, row) &rows::row,
    TESSERA_UNARY_OPS(TESSERA_ROW)};
constexpr const OpDef* kBinaryRows[] = {TESSERA_BINARY_OPS(TESSERA_ROW)
#undef TESSERA_ROW
};

template <std::size_t N>
int index_of(const OpDef* const (&rows)[N], const OpDef& op) {
  const auto found = std::find(std::begin(rows), std::end(rows), &op);
  return found == std::end(rows) ? -1 : static_cast<int>(found - std::begin(rows));
}

int log2_of(std::int64_t bytes) { return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3; }

TileFunction compare_function(const KernelSet& set, const OpView& view) {
  const auto& compare = view.as<CompareAttributes>();
  const auto& table = compare.type == CompareType::kTotalOrder ? set.compare_total : set.compare;
  return table[static_cast<int>(compare.direction)][static_cast<int>(view.operands.front().dtype())];
}

// Returns the precompiled function of an instruction, or null.
TileFunction tile_function(const KernelSet& set, const OpView& view) {
  const int from = static_cast<int>(view.operands.front().dtype());
  const int to = static_cast<int>(view.result.dtype());
  if (const int op = index_of(kUnaryRows, view.op); op >= 0) return set.unary[op][from];
  if (const int op = index_of(kBinaryRows, view.op); op >= 0) return set.binary[op][from];
  if (&view.op == &rows::kConvert) return set.convert[from][to];
  if (&view.op == &rows::kSelect) return set.select[log2_of(dtype_size(view.result.dtype()))];
  if (&view.op == &rows::kClamp) return set.clamp[to];
  return &view.op == &rows::kCompare ? compare_function(set, view) : nullptr;
}

class FusedKernel final : public Kernel {
 public:
  explicit FusedKernel(TileProgram program) : program_(std::move(program)) {}
  void run(const KernelArgs& args) const override { program_.run(args, scratch_); }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return program_.workspace_bytes; }

 private:
  TileProgram program_;
  mutable TileScratch scratch_;  // a plan runs on one thread
};

class TileBuilder {
 public:
  TileBuilder(const Program& program, const Schedule& schedule, const Step& step, bool reference)
      : program_(program),
        computation_(program[schedule.computation]),
        schedule_(schedule),
        step_(step),
        reference_(reference) {
    find_last_uses();
    set_shape();
  }

  FusedStep run() {
    if (!reference_) find_rounds();
    for (int i = 0; i < isize(step_.instructions); ++i) add(i);
    for (const TileStep& move : moves_) tile_.steps.push_back(move);
    for (const BufferId buffer : out_.out) {
      const auto found = std::find(out_.in.begin(), out_.in.end(), buffer);
      tile_.overwritten.push_back(found == out_.in.end() ? -1 : static_cast<int>(found - out_.in.begin()));
    }
    registers_.place(tile_);
    out_.kernel = std::make_unique<FusedKernel>(std::move(tile_));
    return std::move(out_);
  }

 private:
  // A reduction in the group determines the length of rows.
  void set_shape() {
    full_ = computation_[step_.instructions.front()].type.element_count();
    for (const Id id : step_.instructions) {
      const Instruction& instruction = computation_[id];
      full_ = std::max(full_, instruction.type.element_count());
      if (!reduces(id)) continue;
      full_ = computation_[instruction.operands[0]].type.element_count();
      tile_.columns = full_ / instruction.type.element_count();
    }
    for (const Id id : step_.instructions)  // or an operand with one element per row
      for (const Id operand : computation_[id].operands)
        if (const Access& from = access(operand); at_home(from.source) && from.view)
          tile_.columns = full_ / computation_[from.source].type.element_count();
    tile_.rows = full_ / tile_.columns;
  }
  [[nodiscard]] bool at_home(Id id) const { return at(member_of_, id) >= 0; }
  [[nodiscard]] bool reduces(Id id) const { return computation_[id].op == &rows::kReduce; }
  // Returns true if an array has one element per row.
  [[nodiscard]] bool is_per_row(std::int64_t count) const { return tile_.columns > 1 && count != full_; }
  [[nodiscard]] bool is_per_row(Id id) const { return is_per_row(computation_[id].type.element_count()); }

  [[nodiscard]] const Access& access(Id id) const { return at(schedule_.access, id).front(); }

  void find_last_uses() {
    member_of_.assign(computation_.instructions.size(), -1);
    for (int i = 0; i < isize(step_.instructions); ++i) at(member_of_, at(step_.instructions, i)) = i;
    for (int i = 0; i < isize(step_.instructions); ++i)
      for (const Id operand : computation_[at(step_.instructions, i)].operands) {
        const Id source = access(operand).source;
        last_use_[source] = i;
        if (at(member_of_, source) < 0 && access(operand).buffer != kNoBuffer) last_read_[access(operand).buffer] = i;
      }
  }

  // Replaces the instructions of Philox rounds by a single step.
  void find_rounds() {
    part_of_rounds_.assign(step_.instructions.size(), false);
    for (int i = isize(step_.instructions); i-- > 0;) {
      if (at(part_of_rounds_, i)) continue;
      auto rounds = match_philox_rounds(computation_, at(step_.instructions, i));
      if (!rounds || !stays_inside(*rounds, i)) continue;
      for (const Id member : rounds->members) part_of_rounds_[static_cast<std::size_t>(at(member_of_, member))] = true;
      for (const Id input : {rounds->low, rounds->high}) {
        const Access& from = access(input);
        last_use_[from.source] = std::max(last_use_[from.source], i);
        if (at(member_of_, from.source) < 0 && from.buffer != kNoBuffer)
          last_read_[from.buffer] = std::max(last_read_[from.buffer], i);
      }
      rounds_.emplace(i, std::move(*rounds));
    }
  }
  // Returns true if no other instruction reads the intermediate values, and the keys are in memory.
  bool stays_inside(const PhiloxRounds& rounds, int last) const {
    boost::dynamic_bitset<> inside(computation_.instructions.size());
    at(inside, at(step_.instructions, last)) = true;
    for (const Id member : rounds.members) {
      if (at(member_of_, member) < 0 || access(member).buffer != kNoBuffer) return false;
      at(inside, member) = true;
    }
    for (const Id id : step_.instructions)
      if (!at(inside, id))
        for (const Id operand : computation_[id].operands)
          if (const Id source = access(operand).source; at(inside, source) && source != at(step_.instructions, last))
            return false;
    return std::all_of(rounds.keys.begin(), rounds.keys.end(), [&](Id key) {
      const Access& from = access(key);
      return from.buffer != kNoBuffer && at(member_of_, from.source) < 0;
    });
  }
  // Returns a slot for a single element of a buffer, which is the same for every tile.
  int slot_of_scalar(Id key) {
    const Access& from = access(key);
    TileSlot slot;
    slot.input = input_of(from.buffer);
    slot.element_bytes = 0;
    slot.offset_bytes = from.view ? from.view->offset * dtype_size(computation_[key].type.dtype()) : 0;
    tile_.slots.push_back(slot);
    return isize(tile_.slots) - 1;
  }
  void add_rounds(int index, const PhiloxRounds& rounds) {
    TileStep step;
    step.kind = TileStep::Kind::kRounds;
    step.per_row = is_per_row(at(step_.instructions, index));
    for (const Id input : {rounds.low, rounds.high}) step.in[step.in_count++] = slot_to_read(input, step.per_row);
    for (const Id key : rounds.keys) step.keys.push_back(slot_of_scalar(key));
    step.multiplier = rounds.multiplier;
    step.rounds = kernels::kernel_set().philox_rounds;
    release(rounds.low, index);
    release(rounds.high, index);
    step.out = slot_to_write(at(step_.instructions, index), index);
    tile_.steps.push_back(std::move(step));
  }

  void add(int index) {
    if (!part_of_rounds_.empty() && at(part_of_rounds_, index)) return;
    if (const auto rounds = rounds_.find(index); rounds != rounds_.end()) return add_rounds(index, rounds->second);
    const Id id = at(step_.instructions, index);
    const Instruction& instruction = computation_[id];
    if (reduces(id)) return add_reduction(index);
    const OpView view = view_of(program_, computation_, instruction);
    TileStep step;
    step.per_row = is_per_row(id);
    for (const Id operand : instruction.operands) step.in[step.in_count++] = slot_to_read(operand, step.per_row);
    if (instruction.op == &rows::kBitcastConvert) {
      step.kind = TileStep::Kind::kMove;
      step.element_bytes = dtype_size(instruction.type.dtype());
    } else if (!reference_) {
      step.function = tile_function(kernels::kernel_set(), view);
    }
    if (step.function == nullptr && step.kind == TileStep::Kind::kFunction) {
      step.kind = TileStep::Kind::kReference;
      step.reference = std::make_shared<OpView>(view);
      out_.fallbacks.emplace_back(instruction.op->name);
    }
    finish(std::move(step), index);
  }
  // Registers of operands that have their last use here are released first: a result may overwrite an operand
  // elementwise.
  void finish(TileStep step, int index) {
    const Id id = at(step_.instructions, index);
    for (const Id operand : computation_[id].operands)
      if (is_per_row(access(operand).source) == step.per_row) release(operand, index);
    step.out = slot_to_write(id, index);
    tile_.steps.push_back(std::move(step));
    for (const Id operand : computation_[id].operands) release(operand, index);
  }

  void add_reduction(int index) {
    const Id id = at(step_.instructions, index);
    const OpView view = view_of(program_, computation_, computation_[id]);
    const auto op = reduce_op(*reduction_of(*view.called[0]), view.result.dtype());
    TileStep step;
    step.kind = TileStep::Kind::kReduce;
    step.per_row = true;
    step.dtype = view.result.dtype();
    step.is_extremum = is_extremum(*op);
    step.reduce = kernels::kernel_set().reduce_row[static_cast<int>(*op)][static_cast<int>(step.dtype)];
    step.in[step.in_count++] = slot_to_read(computation_[id].operands[0], false);
    step.in[step.in_count++] = slot_of_scalar(computation_[id].operands[1]);
    finish(std::move(step), index);
  }

  int slot_to_read(Id operand, bool per_row) {
    const Access& from = access(operand);
    if (at(member_of_, from.source) >= 0) {
      const int slot = value_slot_.at(from.source);
      return is_per_row(from.source) && !per_row ? spread(from.source, slot) : slot;
    }
    const Instruction& instruction = computation_[operand];
    if (from.buffer == kNoBuffer) return iota_slot(operand, per_row);
    std::optional<View> view = from.view;
    const std::int64_t count = per_row ? tile_.rows : full_;
    if (instruction.type.element_count() == 1 && count != 1) view = View{{count}, {0}, view ? view->offset : 0};
    const int input = input_of(from.buffer);
    const std::int64_t bytes = dtype_size(instruction.type.dtype());
    for (const auto& [key, slot] : loaded_)
      if (key == std::tuple(input, bytes, per_row, view)) return slot;
    TileSlot slot;
    slot.per_row = per_row;
    slot.element_bytes = bytes;
    if (view) {
      slot.register_index = registers_.take(tile_, bytes, per_row, /*forever=*/true);
      tile_.loads.push_back(load_of(*view, input, bytes));
      tile_.loads.back().per_row = per_row;
    } else {
      slot.input = input;
    }
    tile_.slots.push_back(slot);
    const int number = isize(tile_.slots) - 1;
    if (view) tile_.loads.back().slot = number;
    loaded_.push_back({{input, bytes, per_row, view}, number});
    return number;
  }

  // Repeats a value with one element per row over its rows.
  int spread(Id source, int from) {
    if (const auto found = spread_.find(source); found != spread_.end()) return found->second;
    TileStep step;
    step.kind = TileStep::Kind::kSpread;
    step.element_bytes = dtype_size(computation_[source].type.dtype());
    step.spread = fill_function(step.element_bytes);
    step.in[step.in_count++] = from;
    TileSlot slot;
    slot.element_bytes = step.element_bytes;
    slot.register_index = registers_.take(tile_, slot.element_bytes, false, /*forever=*/true);
    tile_.slots.push_back(slot);
    step.out = isize(tile_.slots) - 1;
    tile_.steps.push_back(std::move(step));
    return spread_[source] = isize(tile_.slots) - 1;
  }

  int iota_slot(Id id, bool per_row) {
    const Instruction& iota = computation_[id];
    ensure(iota.op == &rows::kIota, "fused: %{} has no buffer", iota.name);
    if (const auto found = value_slot_.find(id); found != value_slot_.end()) return found->second;
    const auto dim = attributes_as<IotaAttributes>(iota.attributes).iota_dimension;
    TileLoad load;
    load.dtype = iota.type.dtype();
    load.count_up = kernels::kernel_set().count_up[static_cast<int>(load.dtype)];
    load.per_row = per_row;
    load.element_bytes = dtype_size(load.dtype);
    load.size = at(iota.type.dims(), dim);
    for (std::int64_t d = dim + 1; d < iota.type.ndim(); ++d) load.inner *= at(iota.type.dims(), d);
    TileSlot slot;
    slot.per_row = per_row;
    slot.element_bytes = load.element_bytes;
    slot.register_index = registers_.take(tile_, load.element_bytes, per_row, /*forever=*/true);
    tile_.slots.push_back(slot);
    load.slot = isize(tile_.slots) - 1;
    tile_.loads.push_back(std::move(load));
    return value_slot_[id] = isize(tile_.slots) - 1;
  }

  int slot_to_write(Id id, int index) {
    const BufferId buffer = access(id).buffer;
    TileSlot slot;
    slot.per_row = is_per_row(id);
    slot.element_bytes = dtype_size(computation_[id].type.dtype());
    const auto read = last_read_.find(buffer);
    const bool still_read = buffer != kNoBuffer && read != last_read_.end() && read->second > index;
    if (buffer != kNoBuffer && !still_read)
      slot.output = output_of(buffer);
    else
      slot.register_index = registers_.take(tile_, slot.element_bytes, slot.per_row, still_read);
    tile_.slots.push_back(slot);
    const int number = value_slot_[id] = isize(tile_.slots) - 1;
    if (still_read) {  // the operand in this buffer is needed later in the tile: move at the end
      TileSlot target;
      target.per_row = slot.per_row;
      target.output = output_of(buffer);
      target.element_bytes = slot.element_bytes;
      tile_.slots.push_back(target);
      TileStep move;
      move.kind = TileStep::Kind::kMove;
      move.per_row = slot.per_row;
      move.out = isize(tile_.slots) - 1;
      move.in[0] = number;
      move.in_count = 1;
      move.element_bytes = slot.element_bytes;
      moves_.push_back(std::move(move));
      kept_.push_back(id);
    }
    return number;
  }

  int input_of(BufferId buffer) { return place_in(out_.in, buffer); }
  int output_of(BufferId buffer) { return place_in(out_.out, buffer); }
  static int place_in(std::vector<BufferId>& list, BufferId buffer) {
    const auto found = std::find(list.begin(), list.end(), buffer);
    if (found != list.end()) return static_cast<int>(found - list.begin());
    list.push_back(buffer);
    return isize(list) - 1;
  }

  void release(Id operand, int index) {
    const Id source = access(operand).source;
    if (at(member_of_, source) < 0 || last_use_.at(source) != index) return;
    if (std::find(kept_.begin(), kept_.end(), source) != kept_.end()) return;
    const TileSlot& slot = at(tile_.slots, value_slot_.at(source));
    if (slot.register_index < 0) return;
    kept_.push_back(source);  // once, even if an operand occurs twice
    registers_.give_back(slot);
  }

  const Program& program_;
  const Computation& computation_;
  const Schedule& schedule_;
  const Step& step_;
  const bool reference_;
  TileProgram tile_;
  TileRegisters registers_;
  FusedStep out_;
  std::vector<int> member_of_;
  std::vector<bool> part_of_rounds_;  // by member index
  std::map<int, PhiloxRounds> rounds_;
  std::map<Id, int> last_use_;         // of a source, by member index
  std::map<BufferId, int> last_read_;  // of a buffer read from outside, by member index
  std::map<Id, int> value_slot_;
  std::vector<std::pair<std::tuple<int, std::int64_t, bool, std::optional<View>>, int>> loaded_;
  std::vector<TileStep> moves_;
  std::vector<Id> kept_;  // registers that must not be released (again)
  std::map<Id, int> spread_;
  std::int64_t full_ = 0;
};

}  // namespace

FusedStep make_fused_step(const Program& program, const Schedule& schedule, const Step& step, bool reference) {
  return TileBuilder(program, schedule, step, reference).run();
}

}  // namespace tessera
