// SPDX-License-Identifier: Apache-2.0
#include "execution/clock_offset.h"

#include <algorithm>
#include <cstdlib>
#include <span>

#include "tessera/base/text.h"
#include "tessera/base/timeline.h"

namespace tessera {
namespace {

const CollectiveLabel kComparison{0, "the comparison of the clocks of the hosts"};

void send_word(ProcessGroup& world, int source, int target, std::int64_t sent, std::int64_t& received) {
  world.permute(std::as_bytes(std::span(&sent, 1)), std::as_writable_bytes(std::span(&received, 1)), {{source, target}},
                kComparison);
}

// A message from rank 0 to `rank` and back. `rank` reads its clock in between, so that the middle of the time on rank 0
// differs from this reading by the offset and at most half of the time.
ClockOffset round_trip(ProcessGroup& world, int rank) {
  std::int64_t reading = 0;
  const std::int64_t sent = Timeline::now();
  send_word(world, 0, rank, 0, reading);
  send_word(world, rank, 0, Timeline::now(), reading);
  const std::int64_t half = (Timeline::now() - sent) / 2;
  return {.at = reading, .ahead = reading - (sent + half), .uncertainty = half + 1};
}

// The fastest round trip is the most exact one. Only the result of rank 0 is meaningful.
ClockOffset offset_of(ProcessGroup& world, int rank) {
  constexpr int kRoundTrips = 10;
  ClockOffset best = round_trip(world, rank);
  for (int i = 1; i < kRoundTrips; ++i) {
    const ClockOffset other = round_trip(world, rank);
    if (other.uncertainty < best.uncertainty) best = other;
  }
  return best;
}

}  // namespace

ClockOffset measure_clock_offset(ProcessGroup& world, const std::vector<std::string>& hosts) {
  const auto is_local = [&](const std::string& host) { return host == hosts.front(); };
  if (isize(hosts) != world.size() || std::all_of(hosts.begin(), hosts.end(), is_local)) return {.at = Timeline::now()};
  std::vector<ClockOffset> offsets(hosts.size());  // complete on rank 0
  for (int rank = 1; rank < isize(hosts); ++rank) {
    if (is_local(at(hosts, rank))) continue;
    const auto first = std::find(hosts.begin(), hosts.end(), at(hosts, rank)) - hosts.begin();
    at(offsets, rank) = first < rank ? at(offsets, first) : offset_of(world, rank);
  }
  world.broadcast(std::as_writable_bytes(std::span(offsets)), 0, kComparison);
  ClockOffset own = at(offsets, world.rank());
  own.at = Timeline::now();
  return own;
}

std::int64_t on_clock_of_rank_zero(std::int64_t time, const ClockOffset& start, const ClockOffset& end) {
  constexpr std::int64_t kMostDrift = 1000;  // clocks drift by less than a thousandth
  const std::int64_t drift = end.ahead - start.ahead;
  const std::int64_t between = end.at - start.at;
  // Within a short time, the errors of the measurements are larger than the drift.
  if (std::abs(drift) > between / kMostDrift) return time - (start.uncertainty <= end.uncertainty ? start : end).ahead;
  if (between <= 0) return time - start.ahead;
  const double part = static_cast<double>(time - start.at) / static_cast<double>(between);
  return time - start.ahead - static_cast<std::int64_t>(part * static_cast<double>(drift));
}

}  // namespace tessera
