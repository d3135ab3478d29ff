// SPDX-License-Identifier: Apache-2.0
// From a fused step of the schedule to a tile program: which slot every value lies in, which function computes it.
#include "fused_kernel.h"

#include <algorithm>
#include <map>

#include "strided.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tile_program.h"

namespace tessera {
namespace {

using kernels::KernelSet;
using kernels::TileFunction;

constexpr std::string_view kUnaryNames[] = {
#define TESSERA_NAME(word, name) name,
    TESSERA_UNARY_OPS(TESSERA_NAME)};
constexpr std::string_view kBinaryNames[] = {TESSERA_BINARY_OPS(TESSERA_NAME)
#undef TESSERA_NAME
};

template <std::size_t N>
int index_of(const std::string_view (&names)[N], std::string_view name) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<int>(i);
  return -1;
}

int log2_of(std::int64_t bytes) { return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3; }

// The precompiled function of an instruction, or null.
TileFunction tile_function(const KernelSet& set, const OpView& view) {
  const std::string_view name = view.op.name;
  const int from = static_cast<int>(view.operands.front().dtype());
  if (const int op = index_of(kUnaryNames, name); op >= 0) return set.unary[op][from];
  if (const int op = index_of(kBinaryNames, name); op >= 0) return set.binary[op][from];
  if (name == "convert") return set.convert[from][static_cast<int>(view.result.dtype())];
  if (name == "select") return set.select[log2_of(dtype_size(view.result.dtype()))];
  if (name == "clamp") return set.clamp[static_cast<int>(view.result.dtype())];
  if (name != "compare") return nullptr;
  const auto& compare = view.as<CompareAttributes>();
  const auto& table = compare.type == CompareType::kTotalOrder ? set.compare_total : set.compare;
  return table[static_cast<int>(compare.direction)][from];
}

class FusedKernel final : public Kernel {
 public:
  explicit FusedKernel(TileProgram program) : program_(std::move(program)) {}
  void run(const KernelArgs& args) const override { program_.run(args); }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return program_.workspace_bytes; }

 private:
  TileProgram program_;
};

class TileBuilder {
 public:
  TileBuilder(const Program& program, const Schedule& schedule, const Step& step, bool reference)
      : program_(program),
        computation_(program[schedule.computation]),
        schedule_(schedule),
        step_(step),
        reference_(reference) {
    tile_.element_count = computation_[step.instructions.front()].type.element_count();
  }

  FusedStep run() {
    find_last_uses();
    for (int i = 0; i < isize(step_.instructions); ++i) add(i);
    for (const TileStep& move : moves_) tile_.steps.push_back(move);
    place_registers();
    out_.kernel = std::make_unique<FusedKernel>(std::move(tile_));
    return std::move(out_);
  }

 private:
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

  void add(int index) {
    const Id id = at(step_.instructions, index);
    const Instruction& instruction = computation_[id];
    const OpView view = view_of(program_, computation_, instruction);
    TileStep step;
    for (const Id operand : instruction.operands) step.in[step.in_count++] = slot_to_read(operand);
    if (instruction.op->name == "bitcast-convert") {
      step.move_bytes = dtype_size(instruction.type.dtype());
    } else if (!reference_) {
      step.function = tile_function(kernels::kernel_set(), view);
    }
    if (step.function == nullptr && step.move_bytes == 0) {
      auto row = std::make_shared<OpView>(view);
      step.reference = std::move(row);
      out_.fallbacks.emplace_back(instruction.op->name);
    }
    // Operands that die here give their registers first: a result may overwrite an operand, element by element.
    for (const Id operand : instruction.operands) release(operand, index);
    step.out = slot_to_write(id, index);
    tile_.steps.push_back(std::move(step));
  }

  int slot_to_read(Id operand) {
    const Access& from = access(operand);
    if (at(member_of_, from.source) >= 0) return value_slot_.at(from.source);
    const Instruction& instruction = computation_[operand];
    if (from.buffer == kNoBuffer) return iota_slot(operand);
    std::optional<View> view = from.view;
    if (instruction.type.element_count() == 1 && tile_.element_count != 1)
      view = View{{tile_.element_count}, {0}, view ? view->offset : 0};
    const int input = input_of(from.buffer);
    const std::int64_t bytes = dtype_size(instruction.type.dtype());
    for (const auto& [key, slot] : loaded_)
      if (key == std::tuple(input, bytes, view)) return slot;
    TileSlot slot;
    slot.element_bytes = bytes;
    if (view) {
      slot.register_index = take_register(bytes, /*forever=*/true);
      tile_.loads.push_back(load_of(*view, input, bytes));
    } else {
      slot.input = input;
    }
    tile_.slots.push_back(slot);
    const int number = isize(tile_.slots) - 1;
    if (view) tile_.loads.back().slot = number;
    loaded_.push_back({{input, bytes, view}, number});
    return number;
  }

  static TileLoad load_of(const View& view, int input, std::int64_t bytes) {
    TileLoad load;
    load.input = input;
    load.element_bytes = bytes;
    load.offset = view.offset;
    load.fill = fill_function(bytes);
    for (std::size_t d = 0; d < view.dims.size(); ++d) {
      if (view.dims[d] == 1) continue;
      if (!load.dims.empty() && load.strides.back() == view.dims[d] * view.strides[d]) {
        load.dims.back() *= view.dims[d];
        load.strides.back() = view.strides[d];
      } else {
        load.dims.push_back(view.dims[d]);
        load.strides.push_back(view.strides[d]);
      }
    }
    if (load.dims.empty()) {
      load.dims = {1};
      load.strides = {0};
    }
    return load;
  }

  int iota_slot(Id id) {
    const Instruction& iota = computation_[id];
    ensure(iota.op->name == "iota", "fused: %{} has no buffer", iota.name);
    if (const auto found = value_slot_.find(id); found != value_slot_.end()) return found->second;
    const auto dim = attributes_as<IotaAttributes>(iota.attributes).iota_dimension;
    TileLoad load;
    load.dtype = iota.type.dtype();
    load.element_bytes = dtype_size(load.dtype);
    load.size = at(iota.type.dims(), dim);
    for (std::int64_t d = dim + 1; d < iota.type.ndim(); ++d) load.inner *= at(iota.type.dims(), d);
    TileSlot slot;
    slot.element_bytes = load.element_bytes;
    slot.register_index = take_register(load.element_bytes, /*forever=*/true);
    tile_.slots.push_back(slot);
    load.slot = isize(tile_.slots) - 1;
    tile_.loads.push_back(std::move(load));
    return value_slot_[id] = isize(tile_.slots) - 1;
  }

  int slot_to_write(Id id, int index) {
    const BufferId buffer = access(id).buffer;
    TileSlot slot;
    slot.element_bytes = dtype_size(computation_[id].type.dtype());
    const auto read = last_read_.find(buffer);
    const bool still_read = buffer != kNoBuffer && read != last_read_.end() && read->second > index;
    if (buffer != kNoBuffer && !still_read)
      slot.output = output_of(buffer);
    else
      slot.register_index = take_register(slot.element_bytes, still_read);
    tile_.slots.push_back(slot);
    const int number = value_slot_[id] = isize(tile_.slots) - 1;
    if (still_read) {  // the operand it will overwrite is needed later in the tile: move at the end
      TileSlot target;
      target.output = output_of(buffer);
      target.element_bytes = slot.element_bytes;
      tile_.slots.push_back(target);
      TileStep move;
      move.out = isize(tile_.slots) - 1;
      move.in[0] = number;
      move.in_count = 1;
      move.move_bytes = slot.element_bytes;
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

  std::int64_t take_register(std::int64_t bytes, bool forever) {
    auto& free = free_registers_[bytes];
    if (!forever && !free.empty()) {
      const std::int64_t index = free.back();
      free.pop_back();
      return index;
    }
    register_bytes_.push_back(bytes);
    return isize(register_bytes_) - 1;
  }
  void release(Id operand, int index) {
    const Id source = access(operand).source;
    if (at(member_of_, source) < 0 || last_use_.at(source) != index) return;
    if (std::find(kept_.begin(), kept_.end(), source) != kept_.end()) return;
    const TileSlot& slot = at(tile_.slots, value_slot_.at(source));
    if (slot.register_index < 0) return;
    kept_.push_back(source);  // once, also when an operand comes twice
    free_registers_[slot.element_bytes].push_back(slot.register_index);
  }

  // As many elements as the workspace holds, whole cache lines, not more than pays.
  void place_registers() {
    constexpr std::int64_t kMostElements = 4096;
    constexpr std::int64_t kLine = 64;
    constexpr std::int64_t kCache = 32 * 1024;  // of the first level, beside what is read and written in place
    std::int64_t bytes = 0;
    for (const std::int64_t one : register_bytes_) bytes += one;
    tile_.tile = bytes == 0 ? kMostElements : std::min(kMostElements, kCache / bytes);
    tile_.tile = std::max<std::int64_t>(kLine, tile_.tile / kLine * kLine);
    align_to_rows();
    std::int64_t offset = 0;
    for (const std::int64_t one : register_bytes_) {
      tile_.register_offsets.push_back(offset);
      offset += one * tile_.tile;
    }
    tile_.workspace_bytes = offset;
  }
  // Tiles that start with a row of a broadcast operand read it in place.
  void align_to_rows() {
    std::int64_t row = 0;
    for (const TileLoad& load : tile_.loads)
      if (load.input >= 0 && load.dims.size() > 1 && load.strides.back() == 1) row = std::max(row, load.dims.back());
    constexpr std::int64_t kLine = 64;
    if (row < 2 * kLine || row % kLine != 0) return;
    if (row <= tile_.tile) {
      tile_.tile = row;
    } else {  // the largest part of the row that tiles it
      std::int64_t parts = ceil_div(row, tile_.tile);
      while (row % (parts * kLine) != 0 && row / parts > 2 * kLine) ++parts;
      if (row % (parts * kLine) == 0) tile_.tile = row / parts;
    }
  }

  const Program& program_;
  const Computation& computation_;
  const Schedule& schedule_;
  const Step& step_;
  const bool reference_;
  TileProgram tile_;
  FusedStep out_;
  std::vector<int> member_of_;
  std::map<Id, int> last_use_;         // of a source, by member index
  std::map<BufferId, int> last_read_;  // of a buffer read from outside, by member index
  std::map<Id, int> value_slot_;
  std::vector<std::pair<std::tuple<int, std::int64_t, std::optional<View>>, int>> loaded_;
  std::vector<TileStep> moves_;
  std::vector<Id> kept_;  // registers not (or no more) to be given back
  std::map<std::int64_t, std::vector<std::int64_t>> free_registers_;
  std::vector<std::int64_t> register_bytes_;
};

}  // namespace

FusedStep make_fused_step(const Program& program, const Schedule& schedule, const Step& step, bool reference) {
  return TileBuilder(program, schedule, step, reference).run();
}

}  // namespace tessera
