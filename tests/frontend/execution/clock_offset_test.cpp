// SPDX-License-Identifier: Apache-2.0
#include "execution/clock_offset.h"

#include <gtest/gtest.h>

#include <cmath>

#include "frontend/on_ranks.h"
#include "tessera/base/timeline.h"

namespace tessera {
namespace {

// The virtual ranks share one clock, so every measured offset is an error.
TEST(ClockOffset, IsWithinItsUncertainty) {
  run_virtual_ranks(5, [](ProcessGroup& world) {
    const ClockOffset own = measure_clock_offset(world, {"a", "b", "c", "b", "a"});
    EXPECT_LE(std::abs(own.ahead), own.uncertainty);
    EXPECT_EQ(own.uncertainty == 0, world.rank() == 0 || world.rank() == 4) << "those on the host of rank 0";
    std::vector<std::int64_t> all(5);
    world.all_gather(std::as_bytes(std::span(&own.ahead, 1)), std::as_writable_bytes(std::span(all)));
    EXPECT_EQ(all[1], all[3]) << "ranks of a host share a clock";
  });
}

TEST(ClockOffset, NeedsNoMessagesOnOneHost) {
  run_virtual_ranks(3, [](ProcessGroup& world) {
    const auto before = world.traffic().calls;
    for (const std::vector<std::string>& hosts : {std::vector<std::string>{}, {"a", "a", "a"}}) {
      const ClockOffset own = measure_clock_offset(world, hosts);
      EXPECT_EQ(own.ahead, 0);
      EXPECT_EQ(own.uncertainty, 0);
    }
    EXPECT_EQ(world.traffic().calls, before);
  });
}

TEST(ClockOffset, TimesBetweenTwoMeasurementsFollowTheDrift) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const ClockOffset start{.at = 100 * kSecond, .ahead = 7000, .uncertainty = 10};
  const ClockOffset end{.at = 200 * kSecond, .ahead = 9000, .uncertainty = 10};
  EXPECT_EQ(on_clock_of_rank_zero(start.at, start, end), start.at - 7000);
  EXPECT_EQ(on_clock_of_rank_zero(150 * kSecond, start, end), 150 * kSecond - 8000);
  EXPECT_EQ(on_clock_of_rank_zero(end.at, start, end), end.at - 9000);
}

TEST(ClockOffset, WithinAShortTimeTheMoreExactMeasurementCounts) {
  const ClockOffset start{.at = 1000, .ahead = 500, .uncertainty = 100};
  const ClockOffset end{.at = 5000, .ahead = 560, .uncertainty = 20};
  EXPECT_EQ(on_clock_of_rank_zero(2000, start, end), 2000 - 560);
  EXPECT_EQ(on_clock_of_rank_zero(2000, end, start), 2000 - 560);
  EXPECT_EQ(on_clock_of_rank_zero(2000, start, start), 2000 - 500);
}

}  // namespace
}  // namespace tessera
