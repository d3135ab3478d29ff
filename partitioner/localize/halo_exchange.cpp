// SPDX-License-Identifier: Apache-2.0
#include "localize/halo_exchange.h"

#include <map>
#include <optional>

#include "reshard_planning/exchange_rounds.h"
#include "tessera/base/text.h"

namespace tessera::reshard {
namespace {

// Whether every tile has the same offset from its halo; then all pieces have the same source and target positions.
bool have_equal_offsets(const Halo& halo) {
  const auto lead = [&](std::int64_t tile) { return tile * halo.before.length - at(halo.start, tile); };
  for (std::int64_t tile = 1; tile < isize(halo.start); ++tile)
    if (lead(tile) != lead(0)) return false;
  return true;
}

std::vector<Round> rounds_of(const Halo& halo) {
  std::map<std::int64_t, std::vector<Rows>> by_shift;
  const auto length = halo.before.length;
  for (std::int64_t tile = 0; tile < isize(halo.start); ++tile) {
    const Interval& needed = at(halo.needed, tile);
    if (needed.size() <= 0) continue;
    for (auto source = needed.start / length; source * length < needed.limit; ++source) {
      const auto first = std::max(needed.start, source * length);
      const auto limit = std::min(needed.limit, (source + 1) * length);
      const Interval rows{first - source * length, limit - source * length};
      by_shift[source - tile].push_back({source, tile, rows, first - at(halo.start, tile)});
    }
  }
  const bool equal_offsets = have_equal_offsets(halo);
  const auto form = equal_offsets ? Round::Form::kCompleteSlab : Round::Form::kByTile;
  std::vector<Round> rounds;
  if (by_shift.contains(0)) rounds.push_back(make_round(by_shift[0], form));
  for (auto& [shift, pieces] : by_shift)
    if (shift != 0) rounds.push_back(make_round(std::move(pieces), form));
  return equal_offsets ? rounds : joined(std::move(rounds), halo.start.size());
}

RowCount count_permutes(const Halo& halo) { return count_rows(rounds_of(halo)); }

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

Exchange exchange_window(const Mesh& mesh, const Halo& halo, const Dims& locals) {
  Exchange out;
  for (const Round& round : rounds_of(halo))
    out.rounds.push_back(write_round(mesh, {halo.dim, halo.axes}, locals, round));
  return out;
}

}  // namespace tessera::reshard
