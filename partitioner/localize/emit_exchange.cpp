// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "localize/device_numbers.h"
#include "localize/emit_reshard.h"
#include "localize/exchange_layout.h"
#include "reshard_planning/search_space.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera::reshard {
namespace {

// The start offsets of the devices that send; other devices may use any.
DeviceColumn sends_of(const PieceRound& round, int dim) {
  DeviceColumn out(round.send.size());
  const auto enter = [&](std::int64_t device) { at(out, device) = at(at(round.send, device), dim); };
  if (round.send.size() == 1) enter(0);
  if (round.send.size() == 1) return out;
  for (const auto& [source, target] : round.pairs) enter(source);
  for (std::int64_t device = 0; device < isize(round.send); ++device)
    if (round.is_local() && receives(round, device)) enter(device);
  return out;
}

DeviceColumn shifted(const std::vector<Dims>& rows, int dim, std::int64_t shift) {
  DeviceColumn out;
  for (const Dims& row : rows) out.emplace_back(at(row, dim) + shift);
  return out;
}

DeviceColumn negated(DeviceColumn numbers, std::int64_t shift) {
  for (auto& value : numbers)
    if (value) *value = shift - *value;
  return numbers;
}

Value zero_of(Value like) { return ops::constant(*like.builder, Literal(Type::scalar(like.type().dtype()))); }

Value padded(Value x, const Dims& low, const Dims& sizes) {
  std::vector<PaddingDim> padding(sizes.size());
  for (int d = 0; d < isize(sizes); ++d) at(padding, d) = {at(low, d), at(sizes, d) - at(low, d) - x.type().dim(d), 0};
  return x.type().dims() == sizes ? x : ops::pad(x, zero_of(x), std::move(padding));
}

Value joined(const std::vector<Value>& parts, int dim) {
  return parts.size() == 1 ? parts.front() : ops::concatenate(parts, dim);
}

}  // namespace

// `sizes` elements from `starts`; a plain slice if the starts are equal on all devices.
Value ExchangeEmitter::part(Value x, const std::vector<DeviceColumn>& starts, const Dims& sizes) {
  if (x.type().dims() == sizes) return x;
  const bool is_uniform =
      std::all_of(starts.begin(), starts.end(), [](const DeviceColumn& c) { return common_number(c).has_value(); });
  std::vector<SliceRange> ranges;
  for (int d = 0; d < isize(sizes) && is_uniform; ++d) {
    const auto start = *common_number(at(starts, d));
    ranges.push_back({start, start + at(sizes, d), 1});
  }
  return is_uniform ? ops::slice(x, std::move(ranges)) : ops::dynamic_slice(x, numbers(starts), sizes);
}

std::vector<Value> ExchangeEmitter::numbers(const std::vector<DeviceColumn>& columns) {
  std::vector<Value> out;
  for (const DeviceColumn& column : columns) out.push_back(emit_by_device(builder, mesh, column));
  return out;
}

Value ExchangeEmitter::piece(const PieceRound& round) {
  std::vector<DeviceColumn> starts;
  for (int d = 0; d < isize(round.sizes); ++d) starts.push_back(sends_of(round, d));
  Value piece = part(at(shards, round.value), starts, round.sizes);
  if (round.is_local()) return piece;
  piece = ops::collective_permute(piece, {round.pairs}, next_channel++);
  builder.set_notes(piece, notes);
  return piece;
}

// Concatenates the pieces, with zeros in between.
Value ExchangeEmitter::side_by_side(const Exchange& exchange, const ExchangeLayout& layout, const Dims& result) {
  std::vector<Value> parts;
  std::int64_t end = 0;
  const auto fill_to = [&](std::int64_t to) {
    Dims dims = result;
    at(dims, layout.dim) = to - end;
    if (to > end) parts.push_back(ops::splat(zero_of(shards.front()), dims));
    end = std::max(end, to);
  };
  for (const PlacedRound& placed : layout.rounds) {
    const PieceRound& round = at(exchange.rounds, placed.round);
    fill_to(*common_number(at(placed.start, layout.dim)));
    parts.push_back(piece(round));
    end += at(round.sizes, layout.dim);
  }
  fill_to(at(result, layout.dim));
  return joined(parts, layout.dim);
}

Value ExchangeEmitter::run(const Exchange& exchange, const ExchangeLayout& layout, const Dims& result) {
  std::vector<Value> parts;
  for (const PlacedRound& placed : layout.rounds) parts.push_back(piece(at(exchange.rounds, placed.round)));
  std::vector<DeviceColumn> starts(result.size(), DeviceColumn{0});
  at(starts, layout.dim) = layout.run;
  return part(padded(joined(parts, layout.dim), layout.margin, layout.buffer), starts, result);
}

// Writes the pieces over one another in a buffer with margins, which are removed at the end.
Value ExchangeEmitter::over(const Exchange& exchange, const ExchangeLayout& layout, const Dims& result) {
  Value buffer{};
  for (const PlacedRound& placed : layout.rounds) {
    const PieceRound& round = at(exchange.rounds, placed.round);
    const Value next = piece(round);
    if (round.sizes == layout.buffer && !placed.masked) {
      buffer = next;
      continue;
    }
    if (placed.masked) {
      const Value there = moved(next, round, layout, placed);
      buffer = buffer.is_null() ? there : selected(there, buffer, round, layout);
      continue;
    }
    if (buffer.is_null()) buffer = ops::splat(zero_of(shards.front()), layout.buffer);
    buffer = ops::dynamic_update_slice(buffer, next, numbers(placed.start));
  }
  if (buffer.is_null()) return ops::splat(zero_of(shards.front()), result);
  std::vector<DeviceColumn> starts;
  for (const auto low : layout.margin) starts.push_back({low});
  return part(buffer, starts, result);
}

// A buffer that contains the piece at its target position and zeros elsewhere. The zeros suffice for the positions on
// all devices.
Value ExchangeEmitter::moved(Value piece, const PieceRound& round, const ExchangeLayout& layout,
                             const PlacedRound& placed) {
  Dims low;
  Dims sizes;
  std::vector<DeviceColumn> starts;
  for (int d = 0; d < isize(layout.buffer); ++d) {
    std::int64_t least = at(layout.buffer, d);
    std::int64_t most = 0;
    for (const auto& start : at(placed.start, d)) {
      least = std::min(least, start.value_or(least));
      most = std::max(most, start.value_or(most));
    }
    low.push_back(most);
    sizes.push_back(most + std::max(at(round.sizes, d), at(layout.buffer, d) - least));
    starts.push_back(negated(at(placed.start, d), most));
  }
  return part(padded(piece, low, sizes), starts, layout.buffer);
}

// The buffer, with the range that the piece fills replaced.
Value ExchangeEmitter::selected(Value moved, Value buffer, const PieceRound& round, const ExchangeLayout& layout) {
  const Dims& dims = layout.buffer;
  const auto bound = [&](const std::vector<Dims>& rows, int d, CompareDirection direction) {
    const Value index = ops::iota(builder, Type::array(DType::kS32, dims), d);
    const Value place = emit_by_device(builder, mesh, shifted(rows, d, at(layout.margin, d)));
    return ops::compare(index, ops::splat(place, dims), direction);
  };
  const auto fills = [&](int d) {
    for (std::size_t device = 0; device < round.low.size(); ++device)
      if (at(round.low[device], d) != 0 || at(round.high[device], d) != at(dims, d)) return false;
    return true;
  };
  Value mask{};
  for (int d = 0; d < isize(dims); ++d) {
    if (fills(d)) continue;
    const Value inside =
        ops::logical_and(bound(round.low, d, CompareDirection::kGe), bound(round.high, d, CompareDirection::kLt));
    mask = mask.is_null() ? inside : ops::logical_and(mask, inside);
  }
  return mask.is_null() ? moved : ops::select(mask, moved, buffer);
}

Value ExchangeEmitter::emit(const Exchange& exchange, const Dims& result) {
  return emit(exchange, layout_of(exchange, result), result);
}

Value ExchangeEmitter::emit(const Exchange& exchange, const ExchangeLayout& layout, const Dims& result) {
  switch (layout.form) {
    case ExchangeLayout::Form::kSideBySide: return side_by_side(exchange, layout, result);
    case ExchangeLayout::Form::kRun: return run(exchange, layout, result);
    case ExchangeLayout::Form::kOver: break;
  }
  return over(exchange, layout, result);
}

Value emit_window(Value all, int dim, const UnshardedWindow& window) {
  Builder& builder = *all.builder;
  if (!window.outside.is_null() && window.size < all.type().dim(dim)) all = ops::slice_dim(all, dim, 0, window.size);
  const auto low = std::max<std::int64_t>(-window.lowest, 0);
  const auto high = std::max<std::int64_t>(window.highest - all.type().dim(dim), 0);
  if (low > 0 || high > 0) {
    std::vector<PaddingDim> padding(static_cast<std::size_t>(all.type().ndim()));
    at(padding, dim) = {low, high, 0};
    const Value zero = ops::constant(builder, Literal(Type::scalar(all.type().dtype())));
    all = ops::pad(all, window.outside.is_null() ? zero : window.outside, std::move(padding));
  }
  Dims sizes = all.type().dims();
  at(sizes, dim) = window.length;
  std::vector<Value> starts(sizes.size(), number(builder, 0));
  at(starts, dim) = low > 0 ? ops::add(window.start, number(builder, low)) : window.start;
  return ops::dynamic_slice(all, starts, std::move(sizes));
}

}  // namespace tessera::reshard
