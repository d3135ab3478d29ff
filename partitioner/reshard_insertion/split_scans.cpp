// SPDX-License-Identifier: Apache-2.0
#include "reshard_insertion/split_scans.h"

#include <algorithm>
#include <optional>

#include "propagation/factor_sharding.h"
#include "propagation/propagate.h"
#include "reshard_insertion/instruction_splitter.h"
#include "reshard_insertion/split_reductions.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"

namespace tessera {
namespace {

/// A reduce-window over all previous, or all following, elements along one sharded dim.
struct Scan {
  int dim = 0;
  bool from_end = false;
  std::int64_t tiles = 0;
};

// Whether the combiner consists of elementwise ops on scalars without calls, so that it can be applied to arrays.
bool is_elementwise(const Computation& combiner) {
  return combiner.parameters.size() == 2 &&
         std::all_of(combiner.instructions.begin(), combiner.instructions.end(), [](const Instruction& instruction) {
           const Role role = instruction.op->role;
           return (role == Role::kParameter || role == Role::kConstant || role == Role::kPlain) &&
                  instruction.type.is_array() && instruction.type.ndim() == 0 && instruction.called.empty();
         });
}

std::optional<Scan> scan_of(const Program& program, const Computation& computation, const Instruction& instruction) {
  static const OpDef* const kReduceWindow = &rows::kReduceWindow;
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
  const Computation& combiner = program[instruction.called.front()];
  const bool splits = out && is_elementwise(combiner) && may_reassociate(combiner) &&
                      absorbs_its_init(program, computation, instruction);
  return splits ? out : std::nullopt;
}

class ScanSplitter : Splitter {
 public:
  using Splitter::Splitter;
  Computation run() {
    return Splitter::run([&](Id id) { return scan_of(program_, old_, old_[id]); },
                         [&](const Instruction& scan, const Scan& how) { return split(scan, how); });
  }

 private:
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

  // Applies the combiner's ops to arrays.
  Value combined(const Instruction& scan, Value a, Value b, const Sharding& sharding) {
    const Computation& combiner = program_[scan.called.front()];
    const Dims dims = a.type().dims();
    std::vector<Value> values;
    for (const Instruction& op : combiner.instructions) {
      if (op.op->role == Role::kParameter) {
        values.push_back(attributes_as<ParameterAttributes>(op.attributes).number == 0 ? a : b);
      } else if (op.op->role == Role::kConstant) {
        const Value scalar = marked(ops::constant(builder_, attributes_as<ConstantAttributes>(op.attributes).value),
                                    scan, Sharding::replicated(sharding.mesh, 0));
        values.push_back(marked(ops::broadcast(scalar, dims, {}), scan, sharding));
      } else {
        Instruction made = op;
        made.type = Type::array(op.type.dtype(), dims);
        for (Id& operand : made.operands) operand = at(values, operand).id;
        made.control_predecessors.clear();
        made.notes = for_another_op(scan.notes);
        made.sharding = make_sharding(sharding);
        values.push_back(builder_.append(std::move(made)));
      }
    }
    return at(values, combiner.root);
  }

  // The array with the same number of rows on every device, padded with the init value.
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
    const std::int64_t length = array.type().dim(d) / how.tiles;
    const auto [dims, tiled] = tiled_dim(array.type(), array.instruction().sharding->front(), d, how.tiles);

    const auto along = [&](std::int64_t size) {
      return WindowDim{.size = size, .low = how.from_end ? 0 : size - 1, .high = how.from_end ? size - 1 : 0};
    };
    const Value parts = marked(ops::reshape(array, dims), scan, tiled);
    const Value within = windowed(scan, parts, d + 1, along(length), dims, tiled);

    // The totals of all parts, except for the part that no other follows.
    const std::int64_t last = how.from_end ? 0 : length - 1;
    const Value sums = marked(ops::slice_dim(within, d + 1, last, last + 1), scan, tiled);
    Sharding unsharded = tiled;
    at(unsharded.dims, d).axes.clear();
    const std::int64_t first = how.from_end ? 1 : 0;
    const Value others = marked(ops::slice_dim(sums, d, first, first + how.tiles - 1), scan, unsharded);
    Dims one_each = dims;
    at(one_each, d + 1) = 1;
    const Value before = windowed(scan, others, d, reaching(how), one_each, unsharded);

    Dims flat = array.type().dims();
    at(flat, d) = how.tiles;
    Sharding flat_unsharded = unsharded;
    flat_unsharded.dims.erase(flat_unsharded.dims.begin() + d + 1);
    const Value offsets = marked(ops::reshape(before, flat), scan, flat_unsharded);
    Dims kept;
    for (int i = 0; i < isize(dims); ++i)
      if (i != d + 1) kept.push_back(i);
    const Value spread = marked(ops::broadcast(offsets, dims, kept), scan, tiled);
    const Value sum = how.from_end ? combined(scan, within, spread, tiled) : combined(scan, spread, within, tiled);

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

  // A window over all previous (or following) parts: tiles - 1 totals give one result per tile.
  static WindowDim reaching(const Scan& how) {
    const std::int64_t others = how.tiles - 1;
    return {.size = others, .low = how.from_end ? 0 : others, .high = how.from_end ? others : 0};
  }
};

}  // namespace

Program split_scans(const Program& program) {
  ProgramBuilder names("");
  return with_rewritten(
      program,
      [&](const Computation& computation, const Instruction& i) {
        return scan_of(program, computation, i).has_value();
      },
      [&](ComputationId c) { return ScanSplitter(program, c, names).run(); });
}

bool has_scans_to_split(const Program& program) {
  return std::any_of(program.computations.begin(), program.computations.end(), [&](const ComputationRef& computation) {
    return std::any_of(computation->instructions.begin(), computation->instructions.end(), [&](const Instruction& i) {
      return i.sharding && scan_of(program, *computation, i).has_value();
    });
  });
}

}  // namespace tessera
