// SPDX-License-Identifier: Apache-2.0
#include "tessera/collectives/virtual_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "collectives/semantics.h"
#include "tessera/base/error.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

using testing::bytes_of;

// The number of ranks and of nodes. Nodes hold consecutive ranks, or ranks are assigned round-robin.
struct World {
  int ranks;
  int nodes;
  bool round_robin;
};
void PrintTo(const World& s, std::ostream* out) {
  *out << s.ranks << (s.round_robin ? " ranks dealt to " : " ranks on ") << s.nodes << " nodes";
}

class Semantics : public ::testing::TestWithParam<std::tuple<World, int>> {};

TEST_P(Semantics, HoldOnVirtualRanks) {
  const auto& [setup, index] = GetParam();
  const auto& test = testing::semantics_cases()[static_cast<std::size_t>(index)];
  SCOPED_TRACE(test.name);
  const World s = setup;
  run_virtual_ranks(s.ranks, test.run,
                    {.node_of = [s](int rank) { return s.round_robin ? rank % s.nodes : rank * s.nodes / s.ranks; }});
}

std::string setup_name(const ::testing::TestParamInfo<std::tuple<World, int>>& info) {
  const auto& [setup, index] = info.param;
  return std::string(testing::semantics_cases()[static_cast<std::size_t>(index)].name) + "_" +
         std::to_string(setup.ranks) + "on" + std::to_string(setup.nodes) + (setup.round_robin ? "dealt" : "");
}

INSTANTIATE_TEST_SUITE_P(
    VirtualRanks, Semantics,
    ::testing::Combine(::testing::Values(World{1, 1, false}, World{2, 1, false}, World{3, 1, false}, World{4, 1, false},
                                         World{6, 1, false}, World{8, 1, false}, World{16, 1, false},
                                         World{2, 2, false}, World{4, 2, false}, World{6, 2, false}, World{6, 3, true},
                                         World{8, 2, true}, World{5, 2, false}),
                       ::testing::Range(0, static_cast<int>(testing::semantics_cases().size()))),
    setup_name);

std::string error_of(int ranks, const std::function<void(ProcessGroup&)>& fn) {
  try {
    run_virtual_ranks(ranks, fn);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

TEST(VirtualRanks, EachHasItsOwnContext) {
  std::atomic<int> sum = 0;
  run_virtual_ranks(5, [&](ProcessGroup& world) {
    EXPECT_EQ(RankContext::current().rank(), world.rank());
    EXPECT_EQ(RankContext::current().rank_count(), 5);
    sum += world.rank();
  });
  EXPECT_EQ(sum, 10);
}

TEST(VirtualRanks, AnErrorNamesTheRankAndStopsTheOthers) {
  EXPECT_EQ(error_of(8,
                     [](ProcessGroup& world) {
                       if (world.rank() == 3) fail("out of paper");
                       world.barrier();
                     }),
            "rank 3 of 8: out of paper");
}

TEST(VirtualRanks, TheTypeOfAnErrorSurvives) {
  EXPECT_THROW(run_virtual_ranks(2, [](ProcessGroup&) { throw InternalError("ours"); }), InternalError);
  EXPECT_EQ(error_of(2,
                     [](ProcessGroup& world) {
                       if (world.rank() == 1) throw std::out_of_range("far");
                     }),
            "rank 1 of 2: far");
}

TEST(VirtualRanks, AnErrorInsideASubGroupStopsRanksWaitingElsewhere) {
  EXPECT_EQ(error_of(4,
                     [](ProcessGroup& world) {
                       const auto pair = world.split({{0, 1}, {2, 3}}, "pair");
                       if (world.rank() == 2) fail("no more");
                       if (world.rank() == 3) pair->barrier();
                       world.barrier();
                     }),
            "rank 2 of 4: no more");
}

TEST(VirtualRanks, OneRankNeedsNoPrefix) {
  EXPECT_EQ(error_of(1, [](ProcessGroup&) { fail("alone"); }), "alone");
  EXPECT_EQ(error_of(0, [](ProcessGroup&) {}), "0 virtual ranks; at least one is needed");
}

TEST(VirtualRanks, TheErrorNamesARankThatReturnsWhileOthersWait) {
  const auto error = error_of(3, [](ProcessGroup& world) {
    if (world.rank() == 2) return;
    std::vector<float> x(4);
    world.all_reduce(bytes_of(x), bytes_of(x), DType::kF32, Reduction::kSum, {7, "all_reduce %17 over {data}"});
  });
  // Either of the two waiting ranks may be the first to detect it.
  EXPECT_THAT(
      error,
      ::testing::AnyOf("rank 0 of 3: rank 0 waits in all_reduce %17 over {data}; rank 2 has finished without joining",
                       "rank 0 of 3: rank 1 waits in all_reduce %17 over {data}; rank 2 has finished without joining"));
}

TEST(VirtualRanks, TheErrorNamesRanksThatWaitForEachOther) {
  const auto error = error_of(4, [](ProcessGroup& world) {
    const auto rows = world.split({{0, 1}, {2, 3}}, "rows");
    if (world.rank() == 0)
      rows->barrier();
    else
      world.barrier();
  });
  EXPECT_EQ(error,
            "rank 0 of 4: rank 0 waits in barrier over rows; rank 1 has not arrived: it waits in barrier over world");
}

TEST(VirtualRanks, ARankThatWaitsTooLongNamesTheCause) {
  options().set("TESSERA_COLLECTIVE_TIMEOUT", "1");
  const auto error = error_of(3, [](ProcessGroup& world) {
    const auto first = world.split({{0, 1}, {2}}, "{model}");
    const auto second = world.split({{0}, {1, 2}}, "{data}");
    if (world.rank() == 2) world.works_on("runs %dot.3 (dot), step 12 of 40 of train_step");
    if (world.rank() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(world.rank() == 1 ? 300 : 2500));
    if (world.rank() > 0) second->barrier();
    if (world.rank() < 2) first->barrier();
  });
  options().set("TESSERA_COLLECTIVE_TIMEOUT", "600");
  EXPECT_EQ(
      error,
      "rank 0 of 3: waited 1 s in barrier over {model}, as long as TESSERA_COLLECTIVE_TIMEOUT allows; rank 1 has not "
      "arrived\n  rank 1 waits for rank 2 in barrier over {data}\n  rank 2 is the cause: it runs %dot.3 (dot), step "
      "12 of 40 of train_step");
}

TEST(VirtualRanks, DifferentCollectivesDiverge) {
  const auto error = error_of(3, [](ProcessGroup& world) {
    std::vector<float> x(6);
    std::vector<float> y(2);
    if (world.rank() == 2)
      world.all_reduce(bytes_of(x), bytes_of(x), DType::kF32, Reduction::kSum);
    else
      world.reduce_scatter(bytes_of(x), bytes_of(y), DType::kF32, Reduction::kSum);
  });
  EXPECT_EQ(
      error,
      "rank 0 of 3: ranks diverge: rank 2 is at all_reduce over world; ranks 0, 1 are at reduce_scatter over world");
}

TEST(VirtualRanks, DifferentSizesAndLabelsDiverge) {
  EXPECT_EQ(
      error_of(3,
               [](ProcessGroup& world) {
                 std::vector<std::byte> x(world.rank() == 0 ? 8 : 12);
                 world.broadcast(x, 0);
               }),
      "rank 0 of 3: ranks diverge: rank 0 is at broadcast over world (from member 0, 8 bytes, number 1 of its group); "
      "ranks 1, 2 are at broadcast over world (from member 0, 12 bytes, number 1 of its group)");
  EXPECT_EQ(error_of(2,
                     [](ProcessGroup& world) {
                       world.barrier({1, world.rank() == 0 ? "barrier %a" : "barrier %b"});
                     }),
            "rank 0 of 2: ranks diverge: rank 0 is at barrier %a; rank 1 is at barrier %b");
  EXPECT_NE(error_of(2,
                     [](ProcessGroup& world) {
                       world.barrier({world.rank(), "barrier"});
                     })
                .find("rank 0 is at barrier (number 1 of its group) ["),
            std::string::npos);
}

TEST(VirtualRanks, SlowRanksAreNoError) {
  run_virtual_ranks(3, [](ProcessGroup& world) {
    for (int i = 0; i < 3; ++i) {
      if (world.rank() == i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      world.barrier();
    }
  });
}

TEST(VirtualRanks, TheWatchdogNamesTheRankThatHasNotArrived) {
  options().set("TESSERA_WATCHDOG_SECONDS", "1");
  ::testing::internal::CaptureStderr();
  run_virtual_ranks(3, [](ProcessGroup& world) {
    if (world.rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    world.barrier({1, "all_gather %3 over {data}"});
  });
  options().set("TESSERA_WATCHDOG_SECONDS", "30");
  const auto text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("rank 0 has waited 1 s in all_gather %3 over {data}; ranks 1, 2 have not arrived"),
            std::string::npos)
      << text;
}

TEST(VirtualRanks, HundredsOfRanksMeet) {
  run_virtual_ranks(300, [](ProcessGroup& world) {
    std::vector<std::int32_t> one = {1};
    for (int i = 0; i < 3; ++i) {
      std::vector<std::int32_t> sum(1);
      world.all_reduce(bytes_of(one), bytes_of(sum), DType::kS32, Reduction::kSum);
      ASSERT_EQ(sum[0], 300);
    }
  });
}

TEST(VirtualRanks, NodesSendOnlyPayloadForOtherNodesThroughMpi) {
  const auto node_of = [](int rank) { return rank / 2; };
  run_virtual_ranks(4,
                    [](ProcessGroup& world) {
                      const auto inside = world.split({{0, 1}, {2, 3}}, "inside");
                      std::vector<float> in(100);
                      std::vector<float> out(400);
                      const auto before = world.rank_traffic().mpi_payload;
                      inside->all_gather(bytes_of(in), std::span(bytes_of(out)).first(800));
                      EXPECT_EQ(world.rank_traffic().mpi_payload, before);
                      const auto own = world.traffic().mpi_payload;
                      world.all_gather(bytes_of(in), bytes_of(out));
                      EXPECT_EQ(world.traffic().mpi_payload - own, 400);  // one of the two parts of the other node
                      EXPECT_EQ(world.rank_traffic().mpi_payload, before + 400);
                    },
                    {.node_of = node_of});
}

TEST(VirtualRanks, ASingleRankWorldNeedsNoThreads) {
  const auto world = make_single_rank_world();
  EXPECT_EQ(world->size(), 1);
  for (const auto& test : testing::semantics_cases()) test.run(*world);
}

// Every rank publishes a value, reads those of its peers and writes the next one only after all have read. A thread
// sanitizer detects races here.
TEST(Progress, PublishesAndReleases) {
  constexpr int kRanks = 4;
  std::vector<int> values(kRanks, -1);
  run_virtual_ranks(kRanks, [&](ProcessGroup& world) {
    for (std::uint64_t round = 0; round < 50; ++round) {
      world.await_progress(2 * round);  // all ranks have read the values of the previous round
      at(values, world.rank()) = static_cast<int>(round) * 10 + world.rank();
      world.advance(2 * round + 1);
      world.await_progress(2 * round + 1);
      for (int rank = 0; rank < kRanks; ++rank) ASSERT_EQ(at(values, rank), static_cast<int>(round) * 10 + rank);
      world.advance(2 * round + 2);
    }
  });
}

TEST(Progress, OfARankThatEndedIsAnError) {
  const auto run = [](bool throws) {
    run_virtual_ranks(3, [&](ProcessGroup& world) {
      if (world.rank() == 1 && throws) fail("out of paper");
      if (world.rank() != 1) world.await_progress(1);
    });
  };
  try {
    run(false);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("waits in an exchange through node memory over world; rank 1 has finished"),
              std::string::npos)
        << e.what();
  }
  try {
    run(true);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "rank 1 of 3: out of paper");
  }
}

}  // namespace
}  // namespace tessera
