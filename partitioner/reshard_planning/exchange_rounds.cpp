// SPDX-License-Identifier: Apache-2.0
#include "reshard_planning/exchange_rounds.h"

#include <algorithm>

#include "tessera/base/text.h"

namespace tessera::reshard {
namespace {

// A round to which others are added. Records which tiles send or receive already.
struct JoinedRound {
  Round round;
  std::vector<bool> sends, receives;

  JoinedRound(Round first, std::size_t tiles) : round(std::move(first)) {
    sends.resize(tiles, false);
    receives.resize(tiles, false);
    enter(round.pieces);
  }
  [[nodiscard]] bool has_room_for(const Round& other) const {
    return !round.is_local && !other.is_local && has_no_part_in(other);
  }
  // Whether no tile of `other` sends or receives in this round already.
  [[nodiscard]] bool has_no_part_in(const Round& other) const {
    if (round.value != other.value) return false;
    return std::none_of(other.pieces.begin(), other.pieces.end(), [&](const Rows& rows) {
      return sends[static_cast<std::size_t>(rows.source)] || receives[static_cast<std::size_t>(rows.target)];
    });
  }
  void enter(const std::vector<Rows>& pieces) {
    for (const Rows& rows : pieces)
      sends[static_cast<std::size_t>(rows.source)] = receives[static_cast<std::size_t>(rows.target)] = true;
  }
  void take(const Round& other) {
    enter(other.pieces);
    round.form = Round::Form::kByTile;
    round.pieces.insert(round.pieces.end(), other.pieces.begin(), other.pieces.end());
  }
};

// All pieces have the length of the round's longest. A piece that would exceed the shard starts earlier; the receiver
// ignores the surplus.
std::int64_t send_of(const Round& round, const Rows& piece, std::int64_t shard) {
  return round.form == Round::Form::kByTile ? std::min(piece.rows.start, shard - round.length) : round.slab.start;
}

void enter(const Round& round, const Rows& piece, int dim, std::int64_t source, std::int64_t target, PieceRound& out) {
  at(at(out.start, target), dim) = piece.place - (piece.rows.start - at(at(out.send, source), dim));
  at(at(out.low, target), dim) = piece.place;
  at(at(out.high, target), dim) = piece.place + piece.rows.size();
  if (round.form != Round::Form::kCompleteSlab) return;
  at(at(out.low, target), dim) = at(at(out.start, target), dim);
  at(at(out.high, target), dim) = at(at(out.start, target), dim) + round.length;
}

}  // namespace

Round make_round(std::vector<Rows> pieces, Round::Form form, int value) {
  Round round;
  round.form = form;
  round.value = value;
  round.slab = pieces.front().rows;
  round.is_local = pieces.front().source == pieces.front().target;
  for (const Rows& piece : pieces) {
    round.slab = {std::min(round.slab.start, piece.rows.start), std::max(round.slab.limit, piece.rows.limit)};
    round.length = std::max(round.length, piece.rows.size());
  }
  if (form != Round::Form::kByTile) round.length = round.slab.size();
  round.pieces = std::move(pieces);
  return round;
}

namespace {

// If there are only one permute and one local round, and different tiles take part in them, adds the local round to the
// permute: its tiles send to themselves.
void join_what_stays(std::vector<JoinedRound>& open) {
  if (open.size() != 2 || open[0].round.is_local == open[1].round.is_local) return;
  if (open[0].round.is_local) std::swap(open[0], open[1]);
  JoinedRound& permute = open[0];
  const JoinedRound& stays = open[1];
  if (stays.round.length > permute.round.length || !permute.has_no_part_in(stays.round)) return;
  permute.take(stays.round);
  open.pop_back();
}

}  // namespace

std::vector<Round> joined(std::vector<Round> rounds, std::size_t tiles) {
  std::stable_sort(rounds.begin(), rounds.end(), [](const Round& a, const Round& b) { return a.length > b.length; });
  std::vector<JoinedRound> open;
  for (Round& round : rounds) {
    const auto host =
        std::find_if(open.begin(), open.end(), [&](const JoinedRound& other) { return other.has_room_for(round); });
    if (host == open.end())
      open.emplace_back(std::move(round), tiles);
    else
      host->take(round);
  }
  join_what_stays(open);
  std::vector<Round> out;
  for (JoinedRound& done : open) out.push_back(std::move(done.round));
  std::stable_partition(out.begin(), out.end(), [](const Round& round) { return round.is_local; });
  return out;
}

RowCount count_rows(const std::vector<Round>& rounds) {
  RowCount count;
  for (const Round& round : rounds) {
    if (round.is_local) continue;
    count.rows += round.length;
    ++count.permutes;
  }
  return count;
}

PieceRound write_round(const Mesh& mesh, const RowDim& along, const Dims& shard, const Round& round) {
  const int dim = along.dim;
  const bool is_uniform = round.form == Round::Form::kCompleteSlab;
  const auto devices = is_uniform ? std::size_t{1} : static_cast<std::size_t>(mesh.device_count());
  PieceRound out;
  out.value = round.value;
  out.sizes = shard;
  at(out.sizes, dim) = round.length;
  Dims high = shard;
  at(high, dim) = 0;
  out.send.assign(devices, Dims(shard.size(), 0));
  out.start = out.low = out.send;
  out.high.assign(devices, high);
  std::vector<const Rows*> taken(static_cast<std::size_t>(axes_size(along.axes)), nullptr);
  for (const Rows& piece : round.pieces) at(taken, piece.target) = &piece;
  for (std::int64_t target = 0; target < mesh.device_count(); ++target) {
    const auto position = mesh.position_of(target);
    const Rows* piece = at(taken, mesh.coordinate(position, along.axes));
    if (piece == nullptr) continue;
    const auto source = mesh.device_at(with_coordinate(mesh, position, along.axes, piece->source));
    if (!round.is_local) out.pairs.emplace_back(source, target);
    at(at(out.send, is_uniform ? 0 : source), dim) = send_of(round, *piece, at(shard, dim));
    enter(round, *piece, dim, is_uniform ? 0 : source, is_uniform ? 0 : target, out);
  }
  std::sort(out.pairs.begin(), out.pairs.end());
  return out;
}

}  // namespace tessera::reshard
