// SPDX-License-Identifier: Apache-2.0
// Which messages of ranks that fail count as one.
#include "mpi/failure_hash.h"

#include <gtest/gtest.h>

namespace tessera::collectives {
namespace {

TEST(FailureHash, IsThatOfTheTextWithoutTheNumbersOfRanks) {
  for (const auto& [a, b] : {std::pair{"axis x\n  at f.cpp:3, rank 0 of 4", "axis x\n  at f.cpp:3, rank 2 of 4"},
                             {"rank 3 of 4 died (process 7) while rank 0 waited in a barrier",
                              "rank 3 of 4 died (process 7) while rank 11 waited in a barrier"},
                             {"rank 0 cannot reserve 1.50GB", "rank 1 cannot reserve 1.50GB"}})
    EXPECT_EQ(failure_hash(a), failure_hash(b)) << a;
  // A message about one rank, which all ranks throw.
  EXPECT_EQ(failure_hash("rank 2 on host b cannot read t"), failure_hash("rank 2 on host b cannot read t"));
}

TEST(FailureHash, ToleratesOtherNumbersButNotOtherWords) {
  const auto is_same = [](const char* a, const char* b) { return is_same_failure(failure_hash(a), failure_hash(b)); };
  EXPECT_TRUE(is_same("no memory: 1.50GB of 2GB (rank 0)", "no memory: 17GB of 2.25GB (rank 3)"));
  EXPECT_NE(failure_hash("no memory: 1.50GB of 2GB"), failure_hash("no memory: 17GB of 2GB"));
  EXPECT_TRUE(is_same("damaged: state-00001-of-00004.safetensors, byte 5",
                      "damaged: state-00002-of-00004.safetensors, byte 64"));
  EXPECT_TRUE(is_same("in f() at 0x7ffe12ab", "in f() at 0x55aa"));
  EXPECT_TRUE(is_same("hash 01fe", "hash 9c0d"));
  EXPECT_FALSE(is_same("out of paper", "out of ink"));
  EXPECT_FALSE(is_same("out of paper", "out of paper."));
  EXPECT_FALSE(is_same("rank 1 waits", "rank 1 works"));
  EXPECT_NE(failure_hash(""), 0U);
}

}  // namespace
}  // namespace tessera::collectives
