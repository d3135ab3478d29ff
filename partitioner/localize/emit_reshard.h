// SPDX-License-Identifier: Apache-2.0
// Helpers that the emitters of reshard steps share.
#pragma once

#include "localize/exchange_layout.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera::reshard {

/// `x` padded with zeros to `length` along `dim`.
Value pad_to(Value x, int dim, std::int64_t length);
/// The first `length` elements along `dim`.
Value trim_to(Value x, int dim, std::int64_t length);
/// Emits one permute per round, and combines the pieces as layout_of() specifies.
struct ExchangeEmitter {
  Builder& builder;
  std::int64_t& next_channel;
  NotesRef notes;
  const Mesh& mesh;
  std::vector<Value> shards;  // by PieceRound::value
  Value emit(const Exchange& exchange, const Dims& result);
  Value emit(const Exchange& exchange, const ExchangeLayout& layout, const Dims& result);

 private:
  Value piece(const PieceRound& round);
  Value part(Value x, const std::vector<DeviceColumn>& starts, const Dims& sizes);
  std::vector<Value> numbers(const std::vector<DeviceColumn>& columns);
  Value side_by_side(const Exchange& exchange, const ExchangeLayout& layout, const Dims& result);
  Value run(const Exchange& exchange, const ExchangeLayout& layout, const Dims& result);
  Value over(const Exchange& exchange, const ExchangeLayout& layout, const Dims& result);
  Value moved(Value piece, const PieceRound& round, const ExchangeLayout& layout, const PlacedRound& placed);
  Value selected(Value moved, Value buffer, const PieceRound& round, const ExchangeLayout& layout);
};

/// A window of `length` elements of an unsharded dim from `start`. It may begin before the first element or end after
/// the last.
struct UnshardedWindow {
  std::int64_t lowest = 0;   // the least of all tiles' starts
  std::int64_t highest = 0;  // the greatest of all tiles' ends
  std::int64_t length = 0;
  Value start;  // s32[]
  /// A scalar for positions outside of the elements. If null, these are zero, after the padding of the last shards.
  Value outside{};
  std::int64_t size = 0;  // number of elements, without that padding
};
Value emit_window(Value all, int dim, const UnshardedWindow& window);

/// The all-to-all between the two placements of a step.
Value emit_all_to_all(Value local, const Placement& before, const Placement& after, std::int64_t channel,
                      Value& collective);
/// One step around rings: each member of a group receives the `x` of the previous one, and the first that of the last.
Value emit_ring_permute(Value x, const std::vector<std::vector<std::int64_t>>& groups, std::int64_t channel);
/// The single permute that assigns tiles to other devices.
Value emit_permute(Value local, const Placement& before, const Placement& after, std::int64_t channel);

}  // namespace tessera::reshard
