// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "emit_reshard.h"
#include "plan_reshard_space.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera::reshard {
namespace {

Value number(Builder& builder, std::int64_t value) {
  return ops::constant(builder, Literal::scalar(static_cast<std::int32_t>(value)));
}

// Numbers that differ by device, one column each, in one constant; a column of equal numbers is a plain constant.
class DeviceTable {
 public:
  DeviceTable(Builder& builder, std::size_t devices) : builder_(builder), rows_(devices) {}

  int add(std::vector<std::int64_t> column) {
    columns_.push_back(std::move(column));
    return isize(columns_) - 1;
  }
  Value operator[](int index) {
    const auto& column = at(columns_, index);
    if (std::adjacent_find(column.begin(), column.end(), std::not_equal_to<>()) == column.end())
      return number(builder_, column.front());
    if (row_.is_null()) load();
    const Value cell = ops::slice(row_, {{0, 1, 1}, {at(places_, index), at(places_, index) + 1, 1}});
    return ops::reshape(cell, {});
  }

 private:
  void load() {
    std::int64_t width = 0;
    std::vector<const std::vector<std::int64_t>*> kept;
    for (const auto& column : columns_) {
      places_.push_back(width);
      if (std::adjacent_find(column.begin(), column.end(), std::not_equal_to<>()) == column.end()) continue;
      kept.push_back(&column);
      ++width;
    }
    std::vector<std::int32_t> cells;
    for (std::size_t device = 0; device < rows_; ++device)
      for (const auto* column : kept) cells.push_back(static_cast<std::int32_t>((*column)[device]));
    const Value all =
        ops::constant(builder_, Literal::from<std::int32_t>({static_cast<std::int64_t>(rows_), width}, cells));
    const Value device = ops::convert(ops::partition_id(builder_), DType::kS32);
    row_ = ops::dynamic_slice(all, {device, number(builder_, 0)}, {1, width});
  }

  Builder& builder_;
  std::size_t rows_;
  std::vector<std::vector<std::int64_t>> columns_;
  std::vector<std::int64_t> places_;
  Value row_{};
};

std::vector<std::int64_t> column_of(const std::vector<Dims>& rows, int dim, std::int64_t shift = 0,
                                    std::int64_t sign = 1) {
  std::vector<std::int64_t> out;
  for (const Dims& row : rows) out.push_back(shift + sign * at(row, dim));
  return out;
}

// True when every device takes its whole piece, so that nothing needs a mask.
bool is_whole(const PieceRound& round) {
  for (std::size_t device = 0; device < round.start.size(); ++device)
    for (int d = 0; d < isize(round.sizes); ++d) {
      const auto low = at(round.low[device], d);
      if (at(round.start[device], d) != low || at(round.high[device], d) - low != at(round.sizes, d)) return false;
    }
  return true;
}

Value dynamic_piece(Builder& builder, Value local, const PieceRound& round) {
  if (local.type().dims() == round.sizes) return local;
  DeviceTable table(builder, round.send.size());
  std::vector<Value> starts;
  for (int d = 0; d < isize(round.sizes); ++d) table.add(column_of(round.send, d));
  for (int d = 0; d < isize(round.sizes); ++d) starts.push_back(table[d]);
  return ops::dynamic_slice(local, starts, round.sizes);
}

// The piece in a buffer of the result's dims, moved to where it lands; around it lie zeros, as many as any device needs.
Value moved_piece(Builder& builder, Value piece, const PieceRound& round, const Dims& dims) {
  DeviceTable table(builder, round.start.size());
  std::vector<PaddingDim> padding(dims.size());
  std::vector<Value> starts;
  for (int d = 0; d < isize(dims); ++d) {
    const auto places = column_of(round.start, d);
    const auto [least, most] = std::minmax_element(places.begin(), places.end());
    at(padding, d) = {std::max<std::int64_t>(*most, 0),
                      std::max<std::int64_t>(at(dims, d) - at(round.sizes, d) - *least, 0), 0};
    table.add(column_of(round.start, d, at(padding, d).low, -1));
  }
  const Value zero = ops::constant(builder, Literal(Type::scalar(piece.type().dtype())));
  const Value wide = ops::pad(piece, zero, padding);
  for (int d = 0; d < isize(dims); ++d) starts.push_back(table[d]);
  return ops::dynamic_slice(wide, starts, dims);
}

// Which elements of the result the piece brings; null: all.
Value piece_mask(Builder& builder, const PieceRound& round, const Dims& dims) {
  DeviceTable table(builder, round.low.size());
  for (int d = 0; d < isize(dims); ++d) {
    table.add(column_of(round.low, d));
    table.add(column_of(round.high, d));
  }
  const auto fills = [&](int d) {
    for (std::size_t device = 0; device < round.low.size(); ++device)
      if (at(round.low[device], d) != 0 || at(round.high[device], d) != at(dims, d)) return false;
    return true;
  };
  Value mask{};
  for (int d = 0; d < isize(dims); ++d) {
    if (fills(d)) continue;
    const Value index = ops::iota(builder, Type::array(DType::kS32, dims), d);
    const Value above = ops::compare(index, ops::splat(table[2 * d], dims), CompareDirection::kGe);
    const Value below = ops::compare(index, ops::splat(table[2 * d + 1], dims), CompareDirection::kLt);
    const Value inside = ops::logical_and(above, below);
    mask = mask.is_null() ? inside : ops::logical_and(mask, inside);
  }
  return mask;
}

bool all_equal(const std::vector<Dims>& rows) {
  return std::adjacent_find(rows.begin(), rows.end(), std::not_equal_to<>()) == rows.end();
}

// The one dim along which every round's piece lies at the same place on all devices, none over another; -1 when there is none.
int common_dim(const Exchange& exchange, const Dims& dims) {
  int along = -1;
  for (const PieceRound& round : exchange.rounds) {
    if (!all_equal(round.send) || !all_equal(round.start)) return -1;
    for (int d = 0; d < isize(dims); ++d) {
      if (at(round.sizes, d) == at(dims, d) && at(round.start.front(), d) == 0) continue;
      if (along >= 0 && along != d) return -1;
      along = d;
    }
  }
  return along;
}

// The rounds in the order in which their pieces lie along the dim; none where one lies over another or beyond the ends.
std::vector<const PieceRound*> in_order(const Exchange& exchange, int dim, std::int64_t length) {
  std::vector<const PieceRound*> rounds;
  for (const PieceRound& round : exchange.rounds) rounds.push_back(&round);
  const auto start = [&](const PieceRound* round) { return at(round->start.front(), dim); };
  std::sort(rounds.begin(), rounds.end(), [&](auto* a, auto* b) { return start(a) < start(b); });
  std::int64_t end = 0;
  for (const PieceRound* round : rounds) {
    if (start(round) < end) return {};
    end = start(round) + at(round->sizes, dim);
  }
  return end <= length ? rounds : std::vector<const PieceRound*>{};
}

}  // namespace

Value ExchangeEmitter::permuted(Value piece, const PieceRound& round) {
  if (round.is_local()) return piece;
  piece = ops::collective_permute(piece, {round.pairs}, next_channel++);
  builder.set_notes(piece, notes);
  return piece;
}

// Pieces side by side; zeros between.
Value ExchangeEmitter::join(Value local, const std::vector<const PieceRound*>& rounds, int dim, std::int64_t length) {
  std::vector<Value> parts;
  const auto fill_to = [&](std::int64_t from, std::int64_t to) {
    if (to <= from) return;
    Dims dims = local.type().dims();
    at(dims, dim) = to - from;
    parts.push_back(ops::splat(ops::constant(builder, Literal(Type::scalar(local.type().dtype()))), dims));
  };
  std::int64_t end = 0;
  for (const PieceRound* round : rounds) {
    const auto send = at(round->send.front(), dim);
    const auto size = at(round->sizes, dim);
    const bool whole = send == 0 && size == local.type().dim(dim);
    fill_to(end, at(round->start.front(), dim));
    parts.push_back(permuted(whole ? local : ops::slice_dim(local, dim, send, send + size), *round));
    end = at(round->start.front(), dim) + size;
  }
  fill_to(end, length);
  return parts.size() == 1 ? parts.front() : ops::concatenate(parts, dim);
}

Value ExchangeEmitter::emit(Value local, const Exchange& exchange, const Dims& result_dims) {
  if (const int dim = common_dim(exchange, result_dims); dim >= 0)
    if (const auto rounds = in_order(exchange, dim, at(result_dims, dim)); !rounds.empty())
      return join(local, rounds, dim, at(result_dims, dim));
  Value result = ops::splat(ops::constant(builder, Literal(Type::scalar(local.type().dtype()))), result_dims);
  bool first = true;
  for (const PieceRound& round : exchange.rounds) {
    const Value piece = permuted(dynamic_piece(builder, local, round), round);
    result = place(piece, result, round, first);
    first = false;
  }
  return result;
}

Value ExchangeEmitter::place(Value piece, Value result, const PieceRound& round, bool first) {
  const Dims& dims = result.type().dims();
  if (!is_whole(round)) {
    const Value moved = moved_piece(builder, piece, round, dims);
    if (first) return moved;
    const Value mask = piece_mask(builder, round, dims);
    return mask.is_null() ? moved : ops::select(mask, moved, result);
  }
  if (round.sizes == dims) return piece;
  DeviceTable table(builder, round.start.size());
  std::vector<Value> starts;
  for (int d = 0; d < isize(dims); ++d) table.add(column_of(round.start, d));
  for (int d = 0; d < isize(dims); ++d) starts.push_back(table[d]);
  return ops::dynamic_update_slice(result, piece, starts);
}

Value emit_gathered_window(Value local, int dim, const Mesh& mesh, const std::vector<AxisRef>& axes,
                           const GatheredWindow& window, std::int64_t channel, const NotesRef& notes) {
  Builder& builder = *local.builder;
  Value all = ops::all_gather(local, dim, {mesh.groups(axes)}, channel);
  builder.set_notes(all, notes);
  const auto low = std::max<std::int64_t>(-window.lowest, 0);
  const auto high = std::max<std::int64_t>(window.highest - all.type().dim(dim), 0);
  if (low > 0 || high > 0) {
    std::vector<PaddingDim> padding(static_cast<std::size_t>(all.type().ndim()));
    at(padding, dim) = {low, high, 0};
    all = ops::pad(all, ops::constant(builder, Literal(Type::scalar(all.type().dtype()))), std::move(padding));
  }
  Dims sizes = all.type().dims();
  at(sizes, dim) = window.length;
  std::vector<Value> starts(sizes.size(), number(builder, 0));
  at(starts, dim) = low > 0 ? ops::add(window.start, number(builder, low)) : window.start;
  return ops::dynamic_slice(all, starts, std::move(sizes));
}

}  // namespace tessera::reshard
