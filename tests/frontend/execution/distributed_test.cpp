// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/execution/distributed.h"

#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/tensor/dtype.h"

namespace tessera {
namespace {

using testing::error_of;

TEST(Distributed, RanksAreThoseOfTheJob) {
  on_ranks(3, [](int rank) {
    distributed::init_process_group("xla", "pjrt://");
    EXPECT_EQ(distributed::get_rank(), rank);
    EXPECT_EQ(distributed::get_world_size(), 3);
    EXPECT_EQ(distributed::get_node_local_rank(), rank);
    EXPECT_EQ(distributed::get_local_world_size(), 3);
    distributed::barrier();
  });
}

TEST(Distributed, AGroupHasTheListedRanksInTheirOrder) {
  on_ranks(6, [](int rank) {
    const std::vector<int> ranks = {4, 0, 2};
    const auto group = distributed::new_group(ranks);
    const auto place = std::find(ranks.begin(), ranks.end(), rank);
    ASSERT_EQ(group != nullptr, place != ranks.end());
    if (group) {
      EXPECT_EQ(group->size(), 3);
      EXPECT_EQ(group->rank(), place - ranks.begin());
      double sum = 0;
      const double mine = rank;
      group->all_reduce(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(&sum, 1)), DType::kF64,
                        Reduction::kSum);
      EXPECT_EQ(sum, 4 + 0 + 2);
    }
    EXPECT_EQ(distributed::new_group({0, 1, 2, 3, 4, 5})->rank(), rank);
    EXPECT_EQ(distributed::new_group({5}) != nullptr, rank == 5);
  });
}

TEST(Distributed, ErrorsSayWhatIsPossible) {
  const FreshRank rank;
  EXPECT_EQ(error_of([] { (void)distributed::new_group({}); }), "new_group: the list of ranks is empty");
  EXPECT_EQ(error_of([] {
              (void)distributed::new_group({0, 3});
            }),
            "new_group([0, 3]): rank 3 does not exist; the job has the ranks 0 to 0");
  EXPECT_EQ(error_of([] { (void)distributed::new_group({0, 0}); }), "new_group([0, 0]): rank 0 occurs twice");
  EXPECT_EQ(
      error_of([] { distributed::init_process_group("nccl"); }),
      "init_process_group: there is no backend \"nccl\"; xla, mpi and gloo all mean the ranks that mpirun started");
  EXPECT_EQ(error_of([] { distributed::init_process_group("gloo", "tcp://10.0.0.1:23456"); }),
            "init_process_group: the init method \"tcp://10.0.0.1:23456\" is not known; mpirun gives the addresses of "
            "the ranks, so use pjrt://, xla://, env:// or none");
}

}  // namespace
}  // namespace tessera
