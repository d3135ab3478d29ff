// SPDX-License-Identifier: Apache-2.0
#include "halo_exchange.h"

#include <algorithm>
#include <map>
#include <optional>

#include "tessera/base/text.h"

namespace tessera::reshard {
namespace {

// What tile `target` gets from tile `source`.
struct Rows {
  std::int64_t source = 0;
  std::int64_t target = 0;
  Interval rows;
};

// Rows that travel in one permute, or stay where they are. Where every tile stands alike towards its neighbours all pieces
// are sent from and land at one place; `place` is that place in the buffer.
struct Round {
  std::int64_t length = 0;
  std::optional<std::int64_t> place;
  std::vector<Rows> pieces;
  bool is_local = false;
};

std::optional<std::int64_t> common_lead(const Halo& halo) {
  const auto lead = [&](std::int64_t tile) { return tile * halo.before.length - at(halo.start, tile); };
  for (std::int64_t tile = 1; tile < isize(halo.start); ++tile)
    if (lead(tile) != lead(0)) return std::nullopt;
  return lead(0);
}

Round round_of(const Halo& halo, std::vector<Rows> pieces, bool same_place) {
  Round round;
  std::int64_t low = halo.length;
  std::int64_t high = 0;
  for (const Rows& piece : pieces) {
    const auto start = at(halo.start, piece.target);
    low = std::min(low, piece.rows.start - start);
    high = std::max(high, piece.rows.limit - start);
    round.length = std::max(round.length, piece.rows.size());
    round.is_local = piece.source == piece.target;
  }
  if (same_place) {
    round.place = low;
    round.length = high - low;
  }
  round.pieces = std::move(pieces);
  return round;
}

// Rounds being joined: which tiles send and receive in one already.
struct OpenRound {
  Round round;
  std::vector<bool> sends, receives;

  OpenRound(const Round& first, std::size_t tiles) : round{first.length, first.place, {}, first.is_local} {
    sends.resize(tiles, false);
    receives.resize(tiles, false);
    take(first);
  }
  [[nodiscard]] bool has_room_for(const Round& other) const {
    if (round.is_local || other.is_local) return false;
    return std::none_of(other.pieces.begin(), other.pieces.end(), [&](const Rows& rows) {
      return sends[static_cast<std::size_t>(rows.source)] || receives[static_cast<std::size_t>(rows.target)];
    });
  }
  void take(const Round& other) {
    for (const Rows& rows : other.pieces) {
      sends[static_cast<std::size_t>(rows.source)] = receives[static_cast<std::size_t>(rows.target)] = true;
      round.pieces.push_back(rows);
    }
  }
};

// Rounds of which every tile sends and receives in one at most become one.
std::vector<Round> joined(std::vector<Round> rounds, std::size_t tiles) {
  std::stable_sort(rounds.begin(), rounds.end(), [](const Round& a, const Round& b) { return a.length > b.length; });
  std::vector<OpenRound> open;
  for (Round& round : rounds) {
    const auto host =
        std::find_if(open.begin(), open.end(), [&](const OpenRound& other) { return other.has_room_for(round); });
    if (host == open.end())
      open.emplace_back(std::move(round), tiles);
    else
      host->take(round);
  }
  std::vector<Round> out;
  for (OpenRound& done : open) out.push_back(std::move(done.round));
  std::stable_partition(out.begin(), out.end(), [](const Round& round) { return round.is_local; });
  return out;
}

std::vector<Round> rounds_of(const Halo& halo) {
  std::map<std::int64_t, std::vector<Rows>> by_shift;
  const auto length = halo.before.length;
  for (std::int64_t tile = 0; tile < isize(halo.start); ++tile) {
    const Interval& needed = at(halo.needed, tile);
    if (needed.size() <= 0) continue;
    for (auto source = needed.start / length; source * length < needed.limit; ++source) {
      const Interval rows{std::max(needed.start, source * length), std::min(needed.limit, (source + 1) * length)};
      by_shift[source - tile].push_back({source, tile, rows});
    }
  }
  const bool same_place = common_lead(halo).has_value();
  std::vector<Round> rounds;
  if (by_shift.contains(0)) rounds.push_back(round_of(halo, by_shift[0], same_place));
  for (auto& [shift, pieces] : by_shift)
    if (shift != 0) rounds.push_back(round_of(halo, std::move(pieces), same_place));
  return same_place ? rounds : joined(std::move(rounds), halo.start.size());
}

// Entries of all devices, for one round; along the other dims whole shards travel.
class RoundWriter {
 public:
  RoundWriter(const Mesh& mesh, const Halo& halo, const Dims& locals) : mesh_(mesh), halo_(halo), locals_(locals) {}

  PieceRound write(const Round& round) const {
    PieceRound out;
    out.sizes = locals_;
    at(out.sizes, halo_.dim) = round.length;
    Dims high = out.sizes;
    at(high, halo_.dim) = 0;
    // Alike on all devices: one entry says it.
    const auto devices = round.place ? std::size_t{1} : static_cast<std::size_t>(mesh_.device_count());
    out.send.assign(devices, Dims(locals_.size(), 0));
    out.start = out.low = out.send;
    out.high.assign(devices, high);
    if (round.place) fill_alike(round, out);
    for (std::int64_t target = 0; target < mesh_.device_count(); ++target) {
      const auto position = mesh_.position_of(target);
      const auto tile = mesh_.coordinate(position, halo_.axes);
      const auto piece =
          std::find_if(round.pieces.begin(), round.pieces.end(), [&](const Rows& rows) { return rows.target == tile; });
      if (piece == round.pieces.end()) continue;
      const auto source = mesh_.device_at(with_coordinate(mesh_, position, halo_.axes, piece->source));
      if (!round.is_local) out.pairs.emplace_back(source, target);
      if (!round.place) enter(*piece, round.length, source, target, out);
    }
    std::sort(out.pairs.begin(), out.pairs.end());
    return out;
  }

 private:
  void fill_alike(const Round& round, PieceRound& out) const {
    const Rows& any = round.pieces.front();
    const auto send = at(halo_.start, any.target) + *round.place - any.source * halo_.before.length;
    for (std::size_t device = 0; device < out.send.size(); ++device) {
      at(out.send[device], halo_.dim) = send;
      at(out.start[device], halo_.dim) = at(out.low[device], halo_.dim) = *round.place;
      at(out.high[device], halo_.dim) = *round.place + round.length;
    }
  }

  // A piece is as long as the round's longest; where a shard ends before, it starts earlier and the receiver masks.
  void enter(const Rows& piece, std::int64_t length, std::int64_t source, std::int64_t target, PieceRound& out) const {
    const auto source_start = piece.source * halo_.before.length;
    const auto target_start = at(halo_.start, piece.target);
    const auto send = std::min(piece.rows.start - source_start, halo_.before.length - length);
    at(at(out.send, source), halo_.dim) = send;
    at(at(out.start, target), halo_.dim) = source_start + send - target_start;
    at(at(out.low, target), halo_.dim) = piece.rows.start - target_start;
    at(at(out.high, target), halo_.dim) = piece.rows.limit - target_start;
  }

  const Mesh& mesh_;
  const Halo& halo_;
  const Dims& locals_;
};

}  // namespace

namespace {

RowCount count_permutes(const Halo& halo) {
  RowCount count;
  for (const Round& round : rounds_of(halo)) {
    if (round.is_local) continue;
    count.rows += round.length;
    ++count.permutes;
  }
  return count;
}

RowCount count_gather(const Halo& halo) {
  return {(halo.before.tiles - 1) * halo.before.length, static_cast<int>(halo.before.tiles) - 1};
}

}  // namespace

bool is_gathered(const Halo& halo) {
  constexpr int kMostPermutes = 16;
  const RowCount permutes = count_permutes(halo);
  const auto gathered = count_gather(halo).rows;
  return permutes.permutes > kMostPermutes || permutes.rows > gathered ||
         (permutes.rows == gathered && permutes.permutes > 1);
}

RowCount count_window(const Halo& halo) { return is_gathered(halo) ? count_gather(halo) : count_permutes(halo); }

bool fills_with_zeros(const Halo& halo) {
  return common_lead(halo) && halo.before.length * halo.before.tiles == halo.before.size;
}

Exchange exchange_window(const Mesh& mesh, const Halo& halo, const Dims& locals) {
  const RoundWriter writer(mesh, halo, locals);
  Exchange out;
  for (const Round& round : rounds_of(halo)) out.rounds.push_back(writer.write(round));
  return out;
}

}  // namespace tessera::reshard
