// SPDX-License-Identifier: Apache-2.0
// Exchanges of pieces: a few permutes give every device exactly the parts of its new tile that it lacks.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tessera/sharding/placement.h"

namespace tessera::reshard {

/// One permute of equal buffers or, if there are no pairs, a local copy of the parts that every device keeps. If `send`
/// and `start` have a single entry for all devices, pieces of several rounds are adjacent.
struct PieceRound {
  Dims sizes;                                                // of the piece
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;  // source device, target device
  std::vector<Dims> send;                                    // per device: the start of the sent piece in its old shard
  // Per device: the position of the received piece's first element in its new shard; may be negative.
  std::vector<Dims> start;
  std::vector<Dims> low;  // per device: the range of the new shard that the piece fills: [low, high)
  std::vector<Dims> high;
  int value = 0;  // the number of the value to which the piece belongs
  [[nodiscard]] bool is_local() const { return pairs.empty(); }
};
struct Exchange {
  std::vector<PieceRound> rounds;  // local rounds first
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] int permutes() const;
};

/// The cost of an exchange between even, nested tilings of one mesh, computed from their axes alone. A tile consists of
/// `pieces` pieces, each from another device; `local` if one of them is local on every device.
struct PieceCount {
  std::int64_t pieces = 1;
  bool local = false;
  [[nodiscard]] std::int64_t permutes() const { return local ? pieces - 1 : pieces; }
};
std::optional<PieceCount> count_pieces(const Placement& before, const Placement& after);

/// The exchange whose cost count_pieces() gives; count_pieces() must have a value.
Exchange exchange_even(const Placement& before, const Placement& after);
/// The exchange between any two placements over the same devices with equal partial axes. Pieces are boxes, which a
/// greedy search groups into rounds.
Exchange exchange_any(const Placement& before, const Placement& after);
/// exchange_even() if it applies, else exchange_any().
Exchange exchange_between(const Placement& before, const Placement& after);
/// Changes the tile length of one dim on the same axes, by exchanges between neighbouring tiles.
Exchange exchange_lengths(const Placement& before, const Placement& after, int dim);
/// The elements along the dim that one device receives in exchange_lengths, and its number of permutes.
struct RowCount {
  std::int64_t rows = 0;
  int permutes = 0;
};
RowCount count_realign(const DimPlacement& before, const DimPlacement& after);

/// The position with the coordinate `value` along `axes` and the other coordinates of `position`.
std::int64_t with_coordinate(const Mesh& mesh, std::int64_t position, const std::vector<AxisRef>& axes,
                             std::int64_t value);

}  // namespace tessera::reshard
