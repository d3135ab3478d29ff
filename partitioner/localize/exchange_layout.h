// SPDX-License-Identifier: Apache-2.0
// How the pieces of an exchange come together in one buffer, without masks where that can be.
//
//   side by side   every piece lies at one place on all devices: they are concatenated
//   over           pieces are written one over the other, in an order in which what a piece brings too much is overwritten
//                  by those behind it; a device that a piece is not for puts it where it does no harm
//   run            the pieces that a device takes follow one another in one order on all devices: they are concatenated, and each
//                  device takes its part
#pragma once

#include "localize/device_numbers.h"
#include "reshard_planning/exchange_plan.h"

namespace tessera::reshard {

struct PlacedRound {
  int round = 0;                    // of Exchange::rounds
  std::vector<DeviceColumn> start;  // per dim, in the buffer
  bool masked = false;              // only its part [low, high) may be written
};

struct ExchangeLayout {
  enum class Form : std::uint8_t { kSideBySide, kOver, kRun };
  Form form = Form::kOver;
  int dim = -1;                     // kSideBySide, kRun
  std::vector<PlacedRound> rounds;  // in order; of a run they need no start
  Dims buffer;                      // kOver, kRun: that of the pieces, with margins
  Dims margin;                      // before the first
  DeviceColumn run;                 // kRun: where a device's part begins among the pieces
};

ExchangeLayout layout_of(const Exchange& exchange, const Dims& result);

/// Whether the device takes anything from the round.
bool receives(const PieceRound& round, std::int64_t device);

}  // namespace tessera::reshard
