// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/checked.h"

#include <gtest/gtest.h>

#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

TEST(Checked, RemembersAnOverflowInAnyStep) {
  EXPECT_TRUE((Checked(kMost) - 1 + 1).fits());
  EXPECT_EQ((Checked(7) * 6 - 2).value(), 40);
  EXPECT_FALSE((Checked(kMost) + 1 - 1).fits());
  EXPECT_FALSE((Checked(kLeast) - 1).fits());
  EXPECT_FALSE((Checked(kMost) * 2).fits());
  EXPECT_FALSE((Checked(kLeast) * -1).fits());
  EXPECT_FALSE((Checked(1) + Checked(kMost) * kMost * 0).fits());
  EXPECT_EQ((Checked(kMost) + 1).value_or_most(), kMost);
  EXPECT_THROW((void)(Checked(kMost) + 1).value(), InternalError);
}

TEST(Checked, SaturatedFloatsAreTheNearestNumber) {
  EXPECT_EQ(saturated(1e300), kMost);
  EXPECT_EQ(saturated(-1e300), kLeast);
  EXPECT_EQ(saturated(0x1p63), kMost);
  EXPECT_EQ(saturated(-0x1p63), kLeast);
  EXPECT_EQ(saturated(std::numeric_limits<double>::quiet_NaN()), 0);
  EXPECT_EQ(saturated(2.9), 2);
}

TEST(CeilDiv, IsRightUpToTheLargestNumber) {
  EXPECT_EQ(ceil_div(kMost, kMost), 1);
  EXPECT_EQ(ceil_div(kMost, 2), (kMost >> 1) + 1);
  EXPECT_EQ(ceil_div(0, kMost), 0);
  EXPECT_EQ(ceil_div(5, 3), 2);
}

}  // namespace
}  // namespace tessera
