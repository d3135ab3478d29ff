// SPDX-License-Identifier: Apache-2.0
#include "localize/realigned_reshape.h"

#include <fmt/format.h>

#include <algorithm>

#include "localize/emit_reshard.h"
#include "propagation/propagate.h"
#include "reshard_insertion/insert_reshards.h"
#include "reshard_planning/exchange_plan.h"
#include "tessera/base/text.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/explain/remedy.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera {
namespace {

/// The dims [first, limit) of one side.
struct DimRange {
  int first;
  int limit;
};

// The shortest runs of dims with equal numbers of elements.
std::vector<std::pair<DimRange, DimRange>> runs_of(const Type& from, const Type& to) {
  std::vector<std::pair<DimRange, DimRange>> out;
  int i = 0;
  int j = 0;
  while (i < from.ndim() || j < to.ndim()) {
    const int first_i = i;
    const int first_j = j;
    std::int64_t a = i < from.ndim() ? from.dim(i++) : 1;
    std::int64_t b = j < to.ndim() ? to.dim(j++) : 1;
    while (a != b) {
      if (a < b)
        a *= from.dim(i++);
      else
        b *= to.dim(j++);
    }
    out.push_back({{first_i, i}, {first_j, j}});
  }
  return out;
}

// The first dim with more than one element; -1 if there is none.
int leading(const Type& type, const DimRange& range) {
  for (int d = range.first; d < range.limit; ++d)
    if (type.dim(d) > 1) return d;
  return -1;
}

std::int64_t elements(const Type& type, const DimRange& range) {
  std::int64_t out = 1;
  for (int d = range.first; d < range.limit; ++d) out *= type.dim(d);
  return out;
}

// The range as one dim. Tiles of the leading dim consist of complete rows.
DimPlacement as_one(const Type& type, const DimRange& range, std::int64_t tiles) {
  const std::int64_t all = elements(type, range);
  if (tiles == 1) return DimPlacement::canonical(all, 1);
  const std::int64_t rows = type.dim(leading(type, range));
  const std::int64_t length = ceil_div(rows, tiles) * (all / rows);
  return {.size = all, .tiles = tiles, .a = length, .b = 0, .length = length};
}

bool only_leading_dim_is_sharded(const Type& type, const DimRange& range, const Sharding& sharding) {
  const int lead = leading(type, range);
  for (int d = range.first; d < range.limit; ++d)
    if (d != lead && !at(sharding.dims, d).axes.empty()) return false;
  return true;
}

// All runs as dims; those before `done` have their final placement.
Placement placement_of(const RealignedReshape& reshape, int done) {
  Placement out{Sharding::replicated(reshape.result.mesh, isize(reshape.runs)), {}};
  for (int r = 0; r < isize(reshape.runs); ++r) {
    const RealignedRun& run = at(reshape.runs, r);
    at(out.sharding.dims, r).axes = run.axes;
    out.dims.push_back(r < done ? run.after : run.before);
  }
  return out;
}

std::int64_t tile_elements(const Placement& placement) {
  std::int64_t out = 1;
  for (const DimPlacement& dim : placement.dims) out *= dim.length;
  return out;
}

// `tessera.axes` and the other notes that --explain shows for a collective.
NotesRef notes_of(const NotesRef& given, const RealignedReshape& reshape, const RealignedRun& run) {
  std::vector<std::string> names;
  for (const AxisRef& axis : run.axes) names.push_back(reshape.result.mesh.axis_text(axis));
  NotesRef notes = with_frontend_attribute(given, kWhyAttribute, std::nullopt);
  notes = with_frontend_attribute(notes, kConsumerAttribute, std::nullopt);  // that of an earlier reshard
  notes = with_frontend_attribute(notes, "tessera.axes", fmt::format("{}", fmt::join(names, "+")));
  notes = with_frontend_attribute(
      notes, kReasonAttribute,
      fmt::format("a reshape moves the borders between {} shards of {} elements", run.before.tiles, run.before.size));
  notes = with_frontend_attribute(notes, kFromAttribute, fmt::format("shards of {} elements", run.before.length));
  notes = with_frontend_attribute(notes, kToAttribute, fmt::format("shards of {} elements", run.after.length));
  const Remedy remedy{
      .kind = Remedy::Kind::kChangeSize,
      .detail = fmt::format("the first of the dims that are merged or split a multiple of {}", run.before.tiles)};
  return with_frontend_attribute(notes, kRemedyAttribute, remedy.attribute());
}

bool is_reshape(const OpDef& op) {
  static const OpDef* const kReshape = &rows::kReshape;
  return &op == kReshape;
}

std::optional<RealignedReshape> tiles_reshaped(const Type& from, const Type& to, const Sharding& operand) {
  const bool fits = operand.is_tiled() && !operand.is_partial() && operand.ndim() == from.ndim() &&
                    from.element_count() > 0 && !operand.is_replicated();
  if (!fits) return std::nullopt;
  RealignedReshape out{Sharding::replicated(operand.mesh, to.ndim()), {}};
  out.result.manual = operand.manual;
  for (const auto& [source, target] : runs_of(from, to)) {
    if (!only_leading_dim_is_sharded(from, source, operand)) return std::nullopt;
    const int lead = leading(from, source);
    RealignedRun run{lead < 0 ? Axes() : at(operand.dims, lead).axes, {}, {}};
    const std::int64_t tiles = axes_size(run.axes);
    if (tiles > 1 && to.dim(leading(to, target)) < tiles) return std::nullopt;
    if (tiles > 1) at(out.result.dims, leading(to, target)).axes = run.axes;
    run.before = as_one(from, source, tiles);
    run.after = as_one(to, target, tiles);
    out.runs.push_back(std::move(run));
  }
  // Even tiles that do not change are handled by factors.
  const bool is_uneven = std::any_of(out.runs.begin(), out.runs.end(), [](const RealignedRun& run) {
    return run.moves() || run.before.tiles * run.before.length != run.before.size;
  });
  return is_uneven ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

std::optional<RealignedReshape> realigned_reshape(const OpView& view, const Sharding& operand) {
  return is_reshape(view.op) ? tiles_reshaped(view.operands.front(), view.result, operand) : std::nullopt;
}

std::optional<RealignedReshape> realigned_reshape(const Computation& computation, const Instruction& instruction) {
  if (!is_reshape(*instruction.op) || !instruction.sharding) return std::nullopt;
  const Instruction& operand = computation[instruction.operands[0]];
  if (!operand.sharding) return std::nullopt;
  auto out = tiles_reshaped(operand.type, instruction.type, operand.sharding->front());
  return out && out->result == instruction.sharding->front().closed() ? std::move(out) : std::nullopt;
}

double realign_cost(const RealignedReshape& reshape, DType dtype, const Topology& topology) {
  double out = 0;
  for (int r = 0; r < isize(reshape.runs); ++r) {
    const RealignedRun& run = at(reshape.runs, r);
    if (!run.moves()) continue;
    const reshard::RowCount count = reshard::count_realign(run.before, run.after);
    const std::int64_t row = tile_elements(placement_of(reshape, r)) / run.before.length;
    const std::int64_t bytes = count.rows * row * dtype_size(dtype);
    std::vector<std::string> names;
    for (const AxisRef& axis : run.axes) names.push_back(at(reshape.result.mesh.axes(), axis.axis).name);
    out += topology.is_uniform() ? static_cast<double>(bytes)
                                 : exchange_seconds(topology.slowest(names), count.permutes, bytes);
  }
  return out;
}

Value emit_realigned(Builder& builder, std::int64_t& next_channel, const NotesRef& notes, Value local,
                     const RealignedReshape& reshape, const Type& result) {
  const auto lengths = [](const Placement& placement) {
    Dims out;
    for (const DimPlacement& dim : placement.dims) out.push_back(dim.length);
    return out;
  };
  const auto flat = lengths(placement_of(reshape, 0));
  if (std::any_of(reshape.runs.begin(), reshape.runs.end(), [](const RealignedRun& run) { return run.moves(); }))
    local = ops::reshape(local, flat);
  for (int r = 0; r < isize(reshape.runs); ++r) {
    const RealignedRun& run = at(reshape.runs, r);
    if (!run.moves()) continue;
    const Placement before = placement_of(reshape, r);
    const Placement after = placement_of(reshape, r + 1);
    local = reshard::ExchangeEmitter{builder, next_channel, notes_of(notes, reshape, run), reshape.result.mesh, {local}}
                .emit(reshard::exchange_lengths(before, after, r), lengths(after));
  }
  return ops::reshape(local, result.dims());
}

}  // namespace tessera
