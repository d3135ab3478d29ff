// SPDX-License-Identifier: Apache-2.0
// Compares the clocks of the ranks (Timeline::now()). The ranks of a host share a clock. The clocks of hosts differ, and
// drift apart by some microseconds in a second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/collectives/process_group.h"

namespace tessera {

/// The clock of a rank at one time. All times are in nanoseconds.
struct ClockOffset {
  std::int64_t at = 0;           // the time, on the clock of the rank
  std::int64_t ahead = 0;        // by how much the clock of the rank is ahead of that of rank 0
  std::int64_t uncertainty = 0;  // the error of `ahead` is at most this
};

/// Measures the offset of this rank with messages between rank 0 and one rank of each other host. `hosts` has the host
/// of each rank; empty: the ranks share a clock. Collective.
ClockOffset measure_clock_offset(ProcessGroup& world, const std::vector<std::string>& hosts);

/// Returns the time on the clock of rank 0, by interpolation between two measurements.
std::int64_t on_clock_of_rank_zero(std::int64_t time, const ClockOffset& start, const ClockOffset& end);

}  // namespace tessera
