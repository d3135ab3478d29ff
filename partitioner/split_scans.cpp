// SPDX-License-Identifier: Apache-2.0
#include "split_scans.h"

#include <algorithm>
#include <optional>

#include "factor_sharding.h"
#include "propagate.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"

namespace tessera {
namespace {

/// A reduce-window over all that comes before, or behind, along one dim that is cut evenly.
struct Scan {
  int dim = 0;
  bool from_end = false;
  std::int64_t tiles = 0;
};

// One binary op of the two parameters: what combines two values combines two arrays.
const Instruction* only_op(const Computation& combiner) {
  if (combiner.size() != 3 || combiner.parameters.size() != 2) return nullptr;
  const Instruction& root = combiner[combiner.root];
  return root.operands == std::vector<Id>{combiner.parameters[0], combiner.parameters[1]} ? &root : nullptr;
}

// What is met once more per part must not count.
bool starts_from_identity(const Program& program, const Computation& computation, const Instruction& scan) {
  const Instruction& init = computation[scan.operands[1]];
  const auto reduction = reduction_of(program[scan.called.front()]);
  if (!reduction || init.op->role != Role::kConstant) return false;
  const Literal& value = attributes_as<ConstantAttributes>(init.attributes).value;
  return value == reduction_identity(*reduction, value.type().dtype()) ||
         (*reduction == Reduction::kSum && value == Literal(value.type()));
}

std::optional<Scan> scan_of(const Program& program, const Computation& computation, const Instruction& instruction) {
  static const OpDef* const kReduceWindow = &op_table().get("reduce-window");
  if (instruction.op != kReduceWindow || instruction.operands.size() != 2) return std::nullopt;
  const Instruction& array = computation[instruction.operands[0]];
  const Sharding& sharding = array.sharding->front();
  if (!sharding.is_tiled() || sharding.is_partial() || !sharding.manual.empty()) return std::nullopt;
  const auto& window = attributes_as<WindowAttributes>(instruction.attributes).window.dims;
  std::optional<Scan> out;
  for (int d = 0; d < isize(window); ++d) {
    const WindowDim& dim = at(window, d);
    if (dim == WindowDim{}) continue;
    const std::int64_t size = array.type.dim(d);
    const bool from_end = dim.low == 0;
    const WindowDim all{.size = size, .low = from_end ? 0 : size - 1, .high = from_end ? size - 1 : 0};
    if (out || !(dim == all)) return std::nullopt;
    out = Scan{d, from_end, sharding.tiles(d)};
    if (out->tiles < 2 || size <= out->tiles) return std::nullopt;
  }
  if (!out || only_op(program[instruction.called.front()]) == nullptr ||
      !starts_from_identity(program, computation, instruction))
    return std::nullopt;
  return out;
}

class Splitter {
 public:
  Splitter(const Program& program, ComputationId id, ProgramBuilder& names)
      : program_(program),
        old_(program[id]),
        builder_(names.computation(old_.name)),
        new_ids_(old_.instructions.size()) {}

  Computation run() {
    for (Id id = 0; id < old_.size(); ++id) {
      Instruction copy = old_[id];
      const auto scan = scan_of(program_, old_, copy);
      for (Id& operand : copy.operands) operand = at(new_ids_, operand);
      for (Id& before : copy.control_predecessors) before = at(new_ids_, before);
      at(new_ids_, id) = scan ? split(copy, *scan) : builder_.append(std::move(copy)).id;
    }
    return std::move(builder_).finish(builder_.value(at(new_ids_, old_.root)));
  }

 private:
  Value marked(Value value, const Instruction& scan, const Sharding& sharding) {
    builder_.set_sharding(value, make_sharding(sharding));
    builder_.set_notes(value, for_another_op(scan.notes));
    return value;
  }

  // The same reduction over another window.
  Value windowed(const Instruction& scan, Value array, int dim, WindowDim window, Dims dims, const Sharding& sharding) {
    Instruction made = scan;
    WindowDims windows{std::vector<WindowDim>(dims.size())};
    at(windows.dims, dim) = window;
    made.type = Type::array(scan.type.dtype(), std::move(dims));
    made.operands[0] = array.id;
    made.attributes = make_attributes(WindowAttributes{std::move(windows)});
    made.sharding = make_sharding(sharding);
    made.notes = for_another_op(scan.notes);
    return builder_.append(std::move(made));
  }

  Value combined(const Instruction& scan, Value a, Value b, const Sharding& sharding) {
    Instruction made = *only_op(program_[scan.called.front()]);
    made.type = a.type();
    made.operands = {a.id, b.id};
    made.name = scan.name;
    made.notes = for_another_op(scan.notes);
    made.sharding = make_sharding(sharding);
    return builder_.append(std::move(made));
  }

  // The array with as many rows on every device: those behind the last are the init.
  Value filled_up(const Instruction& scan, const Scan& how) {
    const Value array = builder_.value(scan.operands[0]);
    const std::int64_t size = array.type().dim(how.dim);
    const std::int64_t more = ceil_div(size, how.tiles) * how.tiles - size;
    if (more == 0) return array;
    std::vector<PaddingDim> padding(static_cast<std::size_t>(array.type().ndim()));
    at(padding, how.dim).high = more;
    return marked(ops::pad(array, builder_.value(scan.operands[1]), padding), scan,
                  array.instruction().sharding->front());
  }

  Id split(const Instruction& scan, const Scan& how) {
    const int d = how.dim;
    const Value array = filled_up(scan, how);
    Sharding cut = array.instruction().sharding->front();
    for (auto& dim : cut.dims) dim.open = true;
    cut.dims.insert(cut.dims.begin() + d + 1, DimSharding{{}, true, {}});
    const std::int64_t length = array.type().dim(d) / how.tiles;
    Dims dims = array.type().dims();
    dims.insert(dims.begin() + d + 1, length);
    at(dims, d) = how.tiles;

    const auto along = [&](std::int64_t size) {
      return WindowDim{.size = size, .low = how.from_end ? 0 : size - 1, .high = how.from_end ? size - 1 : 0};
    };
    const Value parts = marked(ops::reshape(array, dims), scan, cut);
    const Value within = windowed(scan, parts, d + 1, along(length), dims, cut);

    // What parts come to, but for the one that none comes after.
    const std::int64_t last = how.from_end ? 0 : length - 1;
    const Value sums = marked(ops::slice_dim(within, d + 1, last, last + 1), scan, cut);
    Sharding whole = cut;
    at(whole.dims, d).axes.clear();
    const std::int64_t first = how.from_end ? 1 : 0;
    const Value others = marked(ops::slice_dim(sums, d, first, first + how.tiles - 1), scan, whole);
    Dims one_each = dims;
    at(one_each, d + 1) = 1;
    const Value before = windowed(scan, others, d, reaching(how), one_each, whole);

    Dims flat = array.type().dims();
    at(flat, d) = how.tiles;
    Sharding flat_whole = whole;
    flat_whole.dims.erase(flat_whole.dims.begin() + d + 1);
    const Value offsets = marked(ops::reshape(before, flat), scan, flat_whole);
    Dims kept;
    for (int i = 0; i < isize(dims); ++i)
      if (i != d + 1) kept.push_back(i);
    const Value spread = marked(ops::broadcast(offsets, dims, kept), scan, cut);
    const Value sum = how.from_end ? combined(scan, within, spread, cut) : combined(scan, spread, within, cut);

    Value out = ops::reshape(sum, array.type().dims());
    if (const std::int64_t size = scan.type.dim(d); size != array.type().dim(d)) {
      marked(out, scan, array.instruction().sharding->front());
      out = ops::slice_dim(out, d, 0, size);
    }
    builder_.set_sharding(out, scan.sharding);
    builder_.set_notes(out, for_another_op(scan.notes));
    builder_.set_name(out, scan.name);
    return out.id;
  }

  // All parts before, or behind: of tiles - 1 numbers as many results as tiles.
  static WindowDim reaching(const Scan& how) {
    const std::int64_t others = how.tiles - 1;
    return {.size = others, .low = how.from_end ? 0 : others, .high = how.from_end ? others : 0};
  }

  const Program& program_;
  const Computation& old_;
  Builder builder_;
  std::vector<Id> new_ids_;
};

}  // namespace

Program split_scans(const Program& program) {
  ProgramBuilder names("");
  return with_rewritten(
      program,
      [&](const Computation& computation, const Instruction& i) {
        return scan_of(program, computation, i).has_value();
      },
      [&](ComputationId c) { return Splitter(program, c, names).run(); });
}

}  // namespace tessera
