// SPDX-License-Identifier: Apache-2.0
// The layout in which the pieces of an exchange are combined in one buffer, without masks if possible.
//
//   side by side   every piece has the same position on all devices: they are concatenated
//   over           pieces are written over one another, in an order in which later pieces overwrite the surplus of
//                  earlier ones; a device that does not receive a piece writes it to an unused position
//   run            the pieces of each device are consecutive in one common order: all pieces are concatenated, and each
//                  device takes a slice
#pragma once

#include "localize/device_numbers.h"
#include "reshard_planning/exchange_plan.h"

namespace tessera::reshard {

struct PlacedRound {
  int round = 0;                    // index in Exchange::rounds
  std::vector<DeviceColumn> start;  // per dim, in the buffer
  bool masked = false;              // only its range [low, high) may be written
};

struct ExchangeLayout {
  enum class Form : std::uint8_t { kSideBySide, kOver, kRun };
  Form form = Form::kOver;
  int dim = -1;                     // kSideBySide, kRun
  std::vector<PlacedRound> rounds;  // in order; those of a run need no start
  Dims buffer;                      // kOver, kRun: size of the buffer, with margins
  Dims margin;                      // before the first element
  DeviceColumn run;                 // kRun: the start of a device's slice
};

/// Chooses the layout of an exchange whose result has these dims on a device.
ExchangeLayout layout_of(const Exchange& exchange, const Dims& result);
/// The layout in which devices that receive nothing take a slice of zeros, if it is a run; the buffer may become
/// larger. Other layouts do not change.
ExchangeLayout with_zeros_on_idle_devices(const Exchange& exchange, ExchangeLayout layout, const Dims& result);

/// Whether the device receives anything in the round.
bool receives(const PieceRound& round, std::int64_t device);

}  // namespace tessera::reshard
