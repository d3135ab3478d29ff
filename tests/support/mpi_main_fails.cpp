// SPDX-License-Identifier: Apache-2.0
// Tests that fail on one rank only: the main function must make the run fail without a hang (collectives/failures.sh).
#include <gtest/gtest.h>

#include "support/mpi_main.h"

namespace {

using tessera::testing::world;

TEST(Soft, FailsOnRankOne) {
  EXPECT_NE(world().rank(), 1);
  world().group().barrier();
}

TEST(Hard, LeavesItsPeersOnRankTwo) {
  ASSERT_NE(world().rank(), 2);
  world().group().barrier();
}

TEST(Throwing, LeavesItsPeersOnRankTwo) {
  if (world().rank() == 2) throw std::runtime_error("thrown in a test");
  world().group().barrier();
}

}  // namespace
