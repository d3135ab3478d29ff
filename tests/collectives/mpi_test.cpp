// SPDX-License-Identifier: Apache-2.0
// The semantics over real processes: shared memory, MPI or hierarchical, as TESSERA_NODE and TESSERA_SHARED_MEMORY say.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "collectives/on_node_memory.h"
#include "collectives/semantics.h"
#include "support/mpi_main.h"
#include "tessera/base/options.h"

namespace tessera {
namespace {

using testing::bytes_of;
using testing::world;

class Semantics : public ::testing::TestWithParam<int> {};

TEST_P(Semantics, HoldOverProcesses) {
  testing::uses_large_payloads = true;
  testing::semantics_cases()[static_cast<std::size_t>(GetParam())].run(world().group());
}

// Operands that peers read where they lie.
TEST_P(Semantics, HoldOverProcessesInNodeMemory) {
  if (node_memory() == nullptr) {
    ASSERT_NE(options().text("TESSERA_SHARED_MEMORY"), "1");
    GTEST_SKIP() << "TESSERA_SHARED_MEMORY asks for none";
  }
  testing::uses_large_payloads = true;
  testing::OnNodeMemory group(world().shared_group());
  testing::semantics_cases()[static_cast<std::size_t>(GetParam())].run(group);
}

INSTANTIATE_TEST_SUITE_P(Processes, Semantics, ::testing::Range(0, static_cast<int>(testing::semantics_cases().size())),
                         [](const ::testing::TestParamInfo<int>& info) {
                           return testing::semantics_cases()[static_cast<std::size_t>(info.param)].name;
                         });

TEST(World, KnowsWhereItsRanksAre) {
  auto& w = world();
  EXPECT_EQ(w.group().size(), w.size());
  EXPECT_EQ(w.group().rank(), w.rank());
  EXPECT_EQ(RankContext::current().rank(), w.rank());
  EXPECT_EQ(RankContext::current().rank_count(), w.size());
  EXPECT_EQ(static_cast<int>(w.host_names().size()), w.size());
  const auto names = options().list("TESSERA_NODE");
  const std::set<std::string> distinct(names.begin(), names.end());
  const char* given = std::getenv("TESSERA_TEST_NODES");  // where they are real (namespaces.sh)
  const int wanted = given != nullptr ? std::atoi(given) : std::max<int>(1, static_cast<int>(distinct.size()));
  EXPECT_EQ(w.node_count(), wanted);
  if (given != nullptr) {
    EXPECT_EQ(w.host_names().back(), "node" + std::to_string(wanted - 1));
  }
  EXPECT_LT(w.local_rank(), w.local_size());
  EXPECT_EQ(w.shares_memory(), options().text("TESSERA_SHARED_MEMORY") != "0");
}

TEST(World, OnOneNodeNoPayloadGoesThroughMpi) {
  std::vector<float> in(1000);
  std::vector<float> out(1000);
  world().group().all_reduce(bytes_of(in), bytes_of(out), DType::kF32, Reduction::kSum);
  const bool through_mpi = world().size() > 1 && (world().node_count() > 1 || !world().shares_memory());
  EXPECT_EQ(world().group().rank_traffic().mpi_payload != 0, through_mpi);
}

TEST(World, SaysWhenCoresAreCrowded) {
  EXPECT_NE(world().crowding_note(100000).find("ranks with 100000 threads each share"), std::string::npos);
}

// Neighbours of the buffers stay as they were, whatever the size.
TEST(World, NothingIsWrittenBeyondABuffer) {
  const auto n = static_cast<std::size_t>(world().size());
  for (const std::size_t size : {0, 1, 63, 4097}) {
    std::vector<std::uint8_t> in(size, 7);
    std::vector<std::uint8_t> out(size * n + 64, 0xAB);
    world().group().all_gather(bytes_of(in), bytes_of(out).first(size * n));
    for (std::size_t i = size * n; i < out.size(); ++i) ASSERT_EQ(out[i], 0xAB);
    for (std::size_t i = 0; i < size * n; ++i) ASSERT_EQ(out[i], 7);
  }
}

}  // namespace
}  // namespace tessera
