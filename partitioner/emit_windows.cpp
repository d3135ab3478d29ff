// SPDX-License-Identifier: Apache-2.0
#include "emit_windows.h"

#include <algorithm>
#include <map>

#include "emit_reshard.h"
#include "halo_exchange.h"
#include "insert_reshards.h"
#include "propagate.h"
#include "tessera/base/text.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

Value number(Builder& builder, std::int64_t value) {
  return ops::constant(builder, Literal::scalar(static_cast<std::int32_t>(value)));
}

Type with_dim(const Type& type, int dim, std::int64_t size) {
  Dims dims = type.dims();
  at(dims, dim) = size;
  return Type::array(type.dtype(), std::move(dims));
}

bool is_zero(Value scalar) {
  const Instruction& maker = scalar.instruction();
  if (maker.op->role != Role::kConstant) return false;
  const auto bytes = attributes_as<ConstantAttributes>(maker.attributes).value.bytes();
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
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
  std::vector<std::int32_t> cells;
  for (const auto value : numbers) cells.push_back(static_cast<std::int32_t>(value));
  const Value table = ops::constant(builder, Literal::from<std::int32_t>({isize(cells)}, cells));
  return ops::reshape(ops::dynamic_slice(table, {tile}, {1}), {});
}

NotesRef WindowEmitter::notes_of(const Halo& halo, const Instruction& source) const {
  std::vector<std::string> names;
  for (const AxisRef& axis : merged_axes(halo.axes)) names.push_back(mesh().axis_text(axis));
  const std::string axes = join(names, "+");
  const Sharding& now = at(context_.operand_shardings, halo.operand);
  Sharding whole = now.without_partial();
  at(whole.dims, halo.dim).axes.clear();
  NotesRef notes = with_frontend_attribute(context_.notes, kWhyAttribute, std::nullopt);
  notes = with_frontend_attribute(notes, "tessera.axes", axes);
  notes = with_frontend_attribute(notes, kReasonAttribute,
                                  fmt::format("operand {} of {} is read across its shards along dim {}", halo.operand,
                                              context_.view.op.name, halo.dim));
  notes = with_frontend_attribute(notes, kFromAttribute,
                                  fmt::format("%{} {} ({})", source.name, now.str(), provenance(source)));
  notes = with_frontend_attribute(notes, kToAttribute,
                                  fmt::format("{} with {} elements of dim {} per shard (operand {} of {})", now.str(),
                                              halo.length, halo.dim, halo.operand, context_.view.op.name));
  return with_frontend_attribute(notes, kRemedyAttribute,
                                 fmt::format("annotate %{} with {}", source.name, whole.str()));
}

void WindowEmitter::exchange(const Halo& halo, const Instruction& source) {
  Value& local = at(context_.operands, halo.operand);
  if (reshard::is_gathered(halo)) {
    const auto [lowest, highest] = std::minmax_element(halo.start.begin(), halo.start.end());
    local =
        reshard::emit_gathered_window(local, halo.dim, mesh(), halo.axes,
                                      {*lowest, *highest + halo.length, halo.length, by_tile(halo.axes, halo.start)},
                                      next_channel_++, notes_of(halo, source));
    return;
  }
  Dims dims = local.type().dims();
  const reshard::Exchange exchange = reshard::exchange_window(mesh(), halo, dims);
  at(dims, halo.dim) = halo.length;
  local = reshard::ExchangeEmitter{context_.builder, next_channel_, notes_of(halo, source)}.emit(local, exchange, dims);
}

// Beyond the ends of the operand stands what the op reads there.
void WindowEmitter::fill(const Halo& halo, Value outside) {
  Builder& builder = context_.builder;
  Value& local = at(context_.operands, halo.operand);
  const Dims& dims = local.type().dims();
  if (is_zero(outside) && reshard::fills_with_zeros(halo)) return;
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> limit;
  for (std::size_t tile = 0; tile < halo.start.size(); ++tile) {
    first.push_back(halo.kept[tile].start - halo.start[tile]);
    limit.push_back(halo.kept[tile].limit - halo.start[tile]);
  }
  const Value index = ops::iota(builder, Type::array(DType::kS32, dims), halo.dim);
  const auto bound = [&](const std::vector<std::int64_t>& places, CompareDirection direction) {
    return ops::compare(index, ops::splat(by_tile(halo.axes, places), dims), direction);
  };
  Value inside{};
  if (*std::max_element(first.begin(), first.end()) > 0) inside = bound(first, CompareDirection::kGe);
  if (*std::min_element(limit.begin(), limit.end()) < halo.length) {
    const Value below = bound(limit, CompareDirection::kLt);
    inside = inside.is_null() ? below : ops::logical_and(inside, below);
  }
  if (inside.is_null()) return;
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
    exchange(halo, source(halo.operand));
    if (halo.reads_outside && outside.contains(halo.operand)) fill(halo, outside.at(halo.operand));
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

void WindowEmitter::cut_results(LeafValues& results) {
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

}  // namespace tessera
