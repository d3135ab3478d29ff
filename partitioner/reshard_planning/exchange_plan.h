// SPDX-License-Identifier: Apache-2.0
// Exchanges of pieces: how every device gets, by a few permutes, just those parts of its new tile that it lacks.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tessera/sharding/placement.h"

namespace tessera::reshard {

/// One permute of equal buffers, or (no pairs) what every device keeps of its own. Where `send` and `start` have one entry for
/// all devices, pieces of several rounds lie side by side.
struct PieceRound {
  Dims sizes;                                                // of the piece
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;  // source device, target device
  std::vector<Dims> send;                                    // per device: where the piece starts in its old shard
  std::vector<Dims> start;  // per device: where the piece's first element lands in its new shard; may be negative
  std::vector<Dims> low;    // per device: the part of the new shard that the piece brings: [low, high)
  std::vector<Dims> high;
  int value = 0;  // which of several values the piece is of
  [[nodiscard]] bool is_local() const { return pairs.empty(); }
};
struct Exchange {
  std::vector<PieceRound> rounds;  // the local one first
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] int permutes() const;
};

/// The count of an exchange between even tilings of one mesh whose boundaries nest, found on axes alone: a tile is `pieces`
/// pieces, each from another device; `local` when one of them is the device's own on every device.
struct PieceCount {
  std::int64_t pieces = 1;
  bool local = false;
  [[nodiscard]] std::int64_t permutes() const { return local ? pieces - 1 : pieces; }
};
std::optional<PieceCount> count_pieces(const Placement& before, const Placement& after);

/// The exchange that count_pieces counts; requires that it does.
Exchange exchange_even(const Placement& before, const Placement& after);
/// Between any two placements over the same devices (partial axes equal): pieces are boxes, gathered into rounds greedily.
Exchange exchange_any(const Placement& before, const Placement& after);
/// The even form where there is one, else any.
Exchange exchange_between(const Placement& before, const Placement& after);
/// The tiles of one dim change length, on the same axes: neighbours pass on what moved.
Exchange exchange_lengths(const Placement& before, const Placement& after, int dim);
/// Elements along the dim that one device receives in exchange_lengths, and its permutes.
struct RowCount {
  std::int64_t rows = 0;
  int permutes = 0;
};
RowCount count_realign(const DimPlacement& before, const DimPlacement& after);

/// The position whose coordinates along `axes` are `value`'s, otherwise those of `position`.
std::int64_t with_coordinate(const Mesh& mesh, std::int64_t position, const std::vector<AxisRef>& axes,
                             std::int64_t value);

}  // namespace tessera::reshard
