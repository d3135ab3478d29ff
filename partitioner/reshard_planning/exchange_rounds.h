// SPDX-License-Identifier: Apache-2.0
// Combines the rows that tiles of one dim exchange into as few permutes as possible.
#pragma once

#include "propagation/factor_sharding.h"
#include "reshard_planning/exchange_plan.h"

namespace tessera::reshard {

/// The rows that tile `target` receives from tile `source` (or keeps).
struct Rows {
  std::int64_t source = 0;
  std::int64_t target = 0;
  Interval rows;           // in the source's shard
  std::int64_t place = 0;  // of the first row, in the target's buffer
};

/// Rows that are sent in one permute, or kept locally. Each tile sends at most one interval.
struct Round {
  enum class Form : std::uint8_t {
    kByTile,  // each piece starts at its own row; all are as long as the longest
    kSlab,    // all tiles send the same slab of the shard; its distance to the target position is the same for all
    kCompleteSlab,  // a slab that every device takes completely
  };
  Form form = Form::kByTile;
  std::vector<Rows> pieces;
  Interval slab;            // of the shard; covers all pieces
  std::int64_t length = 0;  // of the longest piece or of the slab
  bool is_local = false;
  int value = 0;  // PieceRound::value
};
Round make_round(std::vector<Rows> pieces, Round::Form form, int value = 0);
/// Combines rounds of one value in which every tile sends and receives at most once; local rounds come first. If one
/// permute remains, tiles that do not take part in it send their kept rows to themselves, unless these are longer than
/// the rows of the permute.
std::vector<Round> joined(std::vector<Round> rounds, std::size_t tiles);
RowCount count_rows(const std::vector<Round>& rounds);

/// The dim along which rows are exchanged.
struct RowDim {
  int dim = 0;
  Axes axes;
};
/// The round with entries for all devices. `shard`: the current dims of a shard. Along other dims, complete shards are
/// sent.
PieceRound write_round(const Mesh& mesh, const RowDim& along, const Dims& shard, const Round& round);

}  // namespace tessera::reshard
