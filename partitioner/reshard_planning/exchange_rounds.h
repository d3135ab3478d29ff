// SPDX-License-Identifier: Apache-2.0
// Rows that tiles of one dim send each other, put together into as few permutes as they can be.
#pragma once

#include "propagation/factor_sharding.h"
#include "reshard_planning/exchange_plan.h"

namespace tessera::reshard {

/// What tile `target` gets from tile `source` (or keeps of its own).
struct Rows {
  std::int64_t source = 0;
  std::int64_t target = 0;
  Interval rows;           // of the source's shard
  std::int64_t place = 0;  // of the first in the target's buffer
};

/// Rows that travel in one permute, or stay where they are: of each tile one run at most.
struct Round {
  enum class Form : std::uint8_t {
    kByTile,  // each from where it stands, as many as the longest
    kSlab,  // all of one slab of the shard, which lands at one place: the distance from rows to places is the same for all
    kAlike,  // a slab, and every device takes all of it
  };
  Form form = Form::kByTile;
  std::vector<Rows> pieces;
  Interval slab;            // of the shard: of all pieces
  std::int64_t length = 0;  // of the longest piece, or of the slab
  bool is_local = false;
  int value = 0;  // PieceRound::value
};
Round make_round(std::vector<Rows> pieces, Round::Form form, int value = 0);
/// Rounds of one value of which every tile sends and receives in one at most become one; the local ones first. Where one permute is left, tiles
/// that neither send nor receive in it send what they keep to themselves, if they keep no more than others get.
std::vector<Round> joined(std::vector<Round> rounds, std::size_t tiles);
RowCount count_rows(const std::vector<Round>& rounds);

/// The dim that the rows belong to.
struct RowDim {
  int dim = 0;
  Axes axes;
};
/// The entries of all devices; `shard`: the dims of what a device holds now. Along the other dims whole shards travel.
PieceRound write_round(const Mesh& mesh, const RowDim& along, const Dims& shard, const Round& round);

}  // namespace tessera::reshard
