// SPDX-License-Identifier: Apache-2.0
#include "localize/emit_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "localize/device_numbers.h"
#include "localize/emit_reshard.h"
#include "localize/halo_exchange.h"
#include "pipeline/origins.h"
#include "propagation/propagate.h"
#include "reshard_insertion/insert_reshards.h"
#include "tessera/base/text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

Type with_dim(const Type& type, int dim, std::int64_t size) {
  Dims dims = type.dims();
  at(dims, dim) = size;
  return Type::array(type.dtype(), std::move(dims));
}

bool is_zero(Value scalar) {
  const Literal* value = known_constant(scalar.instruction());
  if (value == nullptr) return false;
  const auto bytes = value->bytes();
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// Whether every element is kept: values outside of the complete operand are the op's own padding.
bool keeps_all(const Halo& halo) {
  return std::all_of(halo.kept.begin(), halo.kept.end(),
                     [&](const Interval& kept) { return kept.start <= 0 && kept.limit >= halo.before.size; });
}

Remedy unsharding_remedy(const Instruction& value, const Sharding& now, int dim) {
  Sharding unsharded = now.without_partial();
  at(unsharded.dims, dim).axes.clear();
  const auto* from = value.frontend_attribute(kFromAttribute);  // set on reshards
  const bool is_given = from != nullptr ? from->ends_with("(annotated)") : provenance(value) == "annotated";
  return {.kind = is_given ? Remedy::Kind::kChange : Remedy::Kind::kAnnotate,
          .value = annotatable_name(value),
          .spec = unsharded.str(),
          .mesh = unsharded.mesh.str()};
}

// The notes of collectives that exchange elements of `source` along a dim.
NotesRef exchange_notes(const NotesRef& given, const Instruction& source, const Sharding& now, int dim,
                        const std::string& reason, const std::string& to, const Remedy& remedy) {
  std::vector<std::string> axes;
  for (const AxisRef& axis : merged_axes(at(now.dims, dim).axes)) axes.push_back(now.mesh.axis_text(axis));
  NotesRef notes = with_frontend_attribute(given, kWhyAttribute, std::nullopt);
  notes = with_frontend_attribute(notes, kConsumerAttribute, std::nullopt);  // that of an earlier reshard
  notes = with_frontend_attribute(notes, "tessera.axes", fmt::format("{}", fmt::join(axes, "+")));
  notes = with_frontend_attribute(notes, kReasonAttribute, reason);
  notes = with_frontend_attribute(notes, kFromAttribute,
                                  fmt::format("%{} {} ({})", shown_name(source), now.str(), provenance(source)));
  notes = with_frontend_attribute(notes, kToAttribute, fmt::format("{} with {}", now.str(), to));
  return with_frontend_attribute(notes, kRemedyAttribute, remedy.attribute());
}

}  // namespace

Value WindowEmitter::by_tile(const Axes& axes, const std::vector<std::int64_t>& numbers) {
  Builder& builder = context_.builder;
  const auto step = numbers.size() > 1 ? numbers[1] - numbers[0] : 0;
  bool affine = true;
  for (std::size_t i = 1; i < numbers.size(); ++i) affine = affine && numbers[i] - numbers[i - 1] == step;
  if (affine && step == 0) return number(builder, numbers.front());
  const Value tile = context_.coordinate(axes);
  if (affine) return ops::add(ops::multiply(tile, number(builder, step)), number(builder, numbers.front()));
  DeviceColumn column;
  for (std::int64_t device = 0; device < mesh().device_count(); ++device)
    column.emplace_back(at(numbers, mesh().coordinate(mesh().position_of(device), axes)));
  return emit_by_device(builder, mesh(), column);
}

NotesRef WindowEmitter::notes_of(const Halo& halo, const Instruction& source) const {
  const Sharding& now = at(context_.operand_shardings, halo.operand);
  const auto who = fmt::format("operand {} of {} %{}", halo.operand, op_.op->name, shown_name(op_));
  return exchange_notes(
      context_.notes, source, now, halo.dim, fmt::format("{} is read across its shards along dim {}", who, halo.dim),
      fmt::format("{} elements of dim {} per shard ({})", halo.length, halo.dim, who), remedy_of(halo, source));
}

// An operand that was resharded for the op has the axes of the op's result, so the remedy is an annotation of the
// result.
Remedy WindowEmitter::remedy_of(const Halo& halo, const Instruction& source) const {
  const Sharding& now = at(context_.operand_shardings, halo.operand);
  const bool is_reshard = source.frontend_attribute(kReasonAttribute) != nullptr;
  if (!is_reshard || !op_.type.is_array()) return unsharding_remedy(source, now, halo.dim);
  std::vector<int> factors = at(at(map_.operands, halo.operand), halo.dim);
  for (const Window& window : map_.windows)
    if (window.operand == halo.operand && window.dim == halo.dim) factors.push_back(window.factor);
  const Sharding& result = op_.sharding->front();
  for (int d = 0; d < result.ndim(); ++d)
    for (const int factor : at(map_.results.front(), d))
      if (std::find(factors.begin(), factors.end(), factor) != factors.end() && result.tiles(d) > 1)
        return unsharding_remedy(op_, result, d);
  return {.kind = Remedy::Kind::kKeepDim,
          .detail = fmt::format("dim {} of the operand of {} %{}", halo.dim, op_.op->name, shown_name(op_))};
}

bool WindowEmitter::is_unsharded(const Halo& halo) const {
  return at(context_.operand_shardings, halo.operand).tiles(halo.dim) == 1;
}
bool WindowEmitter::holds_full_dim(const Halo& halo) const { return is_unsharded(halo) || reshard::is_gathered(halo); }

reshard::NonzeroRows WindowEmitter::exchange(const Halo& halo, const Instruction& source, Value outside,
                                             bool reads_zeros) {
  Value& local = at(context_.operands, halo.operand);
  if (holds_full_dim(halo)) {
    const auto [lowest, highest] = std::minmax_element(halo.start.begin(), halo.start.end());
    const reshard::UnshardedWindow window{*lowest, *highest + halo.length, halo.length, by_tile(halo.axes, halo.start),
                                          outside, halo.before.size};
    Value all = local;
    if (!is_unsharded(halo)) {
      all = ops::all_gather(local, halo.dim, {mesh().groups(halo.axes)}, next_channel_++);
      context_.builder.set_notes(all, notes_of(halo, source));
    }
    local = reshard::emit_window(all, halo.dim, window);
    return reads_zeros ? reshard::nonzero_rows(halo, all.type().dim(halo.dim)) : reshard::NonzeroRows();
  }
  Dims dims = local.type().dims();
  const reshard::Exchange exchange = reshard::exchange_window(mesh(), halo, dims);
  at(dims, halo.dim) = halo.length;
  auto [layout, rows] = layout_of_window(halo, exchange, dims, reads_zeros);
  local = reshard::ExchangeEmitter{context_.builder, next_channel_, notes_of(halo, source), mesh(), {local}}.emit(
      exchange, layout, dims);
  return std::move(rows);
}

WindowEmitter::WindowLayout WindowEmitter::layout_of_window(const Halo& halo, const reshard::Exchange& exchange,
                                                            const Dims& dims, bool reads_zeros) const {
  WindowLayout out{reshard::layout_of(exchange, dims), {}};
  if (!reads_zeros) return out;
  WindowLayout with_zeros{reshard::with_zeros_on_idle_devices(exchange, out.layout, dims), {}};
  with_zeros.rows = reshard::nonzero_rows(mesh(), halo, exchange, with_zeros.layout);
  const auto [below, above] = reshard::ends_with_values(halo, with_zeros.rows);
  if (!below && !above) return with_zeros;
  out.rows = reshard::nonzero_rows(mesh(), halo, exchange, out.layout);
  return out;
}

// Fills the positions beyond the ends of the operand with the value that the op reads there. `rows`: if this value is
// zero, the positions that may differ from it.
void WindowEmitter::fill(const Halo& halo, Value outside, const reshard::NonzeroRows& rows) {
  Builder& builder = context_.builder;
  Value& local = at(context_.operands, halo.operand);
  const Dims& dims = local.type().dims();
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> limit;
  for (std::size_t tile = 0; tile < halo.start.size(); ++tile) {
    first.push_back(halo.kept[tile].start - halo.start[tile]);
    limit.push_back(halo.kept[tile].limit - halo.start[tile]);
  }
  reshard::MaskedEnds masked{*std::max_element(first.begin(), first.end()) > 0,
                             *std::min_element(limit.begin(), limit.end()) < halo.length};
  if (is_zero(outside)) masked = reshard::ends_with_values(halo, rows);
  if (!masked.below && !masked.above) return;
  const Value index = ops::iota(builder, Type::array(DType::kS32, dims), halo.dim);
  const auto bound = [&](const std::vector<std::int64_t>& places, CompareDirection direction) {
    return ops::compare(index, ops::splat(by_tile(halo.axes, places), dims), direction);
  };
  Value inside{};
  if (masked.below) inside = bound(first, CompareDirection::kGe);
  if (masked.above) {
    const Value below = bound(limit, CompareDirection::kLt);
    inside = inside.is_null() ? below : ops::logical_and(inside, below);
  }
  local = ops::select(inside, local, ops::splat(outside, dims));
}

void WindowEmitter::widen_operands(const std::function<const Instruction&(int operand)>& source) {
  wanted_ = context_.local_results;
  const std::vector<Halo> halos = halos_of(map_, context_.view.operands, strategy_);
  std::map<int, Value> outside;
  for (const Halo& halo : halos)
    if (halo.reads_outside && context_.view.op.outside != nullptr && !outside.contains(halo.operand))
      outside[halo.operand] = context_.view.op.outside(context_, halo.operand);
  for (const Halo& halo : halos) {
    const bool fills = halo.reads_outside && outside.contains(halo.operand) && !outside.at(halo.operand).is_null();
    const bool by_padding = fills && holds_full_dim(halo) && keeps_all(halo);
    const Value padding = by_padding ? outside.at(halo.operand) : Value{};
    const bool reads_zeros = fills && !by_padding && is_zero(outside.at(halo.operand));
    const reshard::NonzeroRows rows = exchange(halo, source(halo.operand), padding, reads_zeros);
    if (fills && !by_padding) fill(halo, outside.at(halo.operand), rows);
    context_.windows.push_back({halo.operand, halo.dim, halo.low, halo.high});
  }
  for (int i = 0; i < isize(map_.results); ++i)
    for (int d = 0; d < isize(at(map_.results, i)); ++d)
      for (const int factor : at(at(map_.results, i), d)) {
        if (tiles_of(strategy_, factor) == 1 || !has_windows(map_, factor)) continue;
        Type& local = at(context_.local_results, i);
        local = with_dim(local, d, tiling_of(map_, factor, tiles_of(strategy_, factor)).count);
      }
}

void WindowEmitter::crop_results(LeafValues& results) {
  Builder& builder = context_.builder;
  for (int i = 0; i < isize(map_.results); ++i)
    for (int d = 0; d < isize(at(map_.results, i)); ++d)
      for (const int factor : at(at(map_.results, i), d)) {
        if (tiles_of(strategy_, factor) == 1 || !has_windows(map_, factor)) continue;
        const FactorTiling tiling = tiling_of(map_, factor, tiles_of(strategy_, factor));
        if (tiling.is_exact()) continue;
        Value& result = at(results, i);
        std::vector<Value> starts(static_cast<std::size_t>(result.type().ndim()), number(builder, 0));
        at(starts, d) = by_tile(at(strategy_, factor), tiling.skip);
        result = ops::dynamic_slice(result, starts, with_dim(result.type(), d, tiling.length).dims());
      }
  context_.local_results = wanted_;
}

std::optional<Value> emit_join(LocalizeContext& context, std::int64_t& next_channel, const ShardedConcatenate& join,
                               const std::vector<Value>& shards, const Instruction& source) {
  const Dims& result = context.local_result().dims();
  std::vector<Dims> dims;
  for (const Value& shard : shards) dims.push_back(shard.type().dims());
  const Mesh& mesh = context.result_shardings.front().mesh;
  const auto exchange = exchange_sharded_concatenate(mesh, join, dims, at(result, join.dim));
  if (!exchange) return std::nullopt;
  const NotesRef notes = exchange_notes(
      context.notes, source, source.sharding->front(), join.dim,
      fmt::format("{} moves elements along dim {}", context.view.op.name, join.dim),
      fmt::format("{} elements of dim {} per shard ({})", at(result, join.dim), join.dim, context.view.op.name),
      unsharding_remedy(source, source.sharding->front(), join.dim));
  return reshard::ExchangeEmitter{context.builder, next_channel, notes, mesh, shards}.emit(*exchange, result);
}

}  // namespace tessera
