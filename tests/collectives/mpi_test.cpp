// SPDX-License-Identifier: Apache-2.0
// Runs the semantics on real processes: with shared memory, MPI or hierarchically, as TESSERA_NODE and
// TESSERA_SHARED_MEMORY specify.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <set>
#include <thread>

#include "collectives/documented_sum.h"
#include "collectives/on_node_memory.h"
#include "collectives/semantics.h"
#include "support/mpi_main.h"
#include "tessera/base/options.h"

namespace tessera {
namespace {

using testing::bytes_of;
using testing::world;

class Semantics : public ::testing::TestWithParam<int> {};

TEST_P(Semantics, HoldBetweenProcesses) {
  testing::uses_large_payloads = true;
  testing::semantics_cases()[static_cast<std::size_t>(GetParam())].run(world().group());
}

// With operands that peers read in place.
TEST_P(Semantics, HoldBetweenProcessesWithNodeMemory) {
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

TEST(World, ReportsTheNodesOfItsRanks) {
  auto& w = world();
  EXPECT_EQ(w.group().size(), w.size());
  EXPECT_EQ(w.group().rank(), w.rank());
  EXPECT_EQ(RankContext::current().rank(), w.rank());
  EXPECT_EQ(RankContext::current().rank_count(), w.size());
  EXPECT_EQ(static_cast<int>(w.host_names().size()), w.size());
  const auto names = options().list("TESSERA_NODE");
  const std::set<std::string> distinct(names.begin(), names.end());
  const char* given = std::getenv("TESSERA_TEST_NODES");  // set if the nodes are real (namespaces.sh)
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

TEST(World, ReportsMoreRanksThanCores) {
  EXPECT_NE(world().oversubscription_note(100000).find("ranks with 100000 threads each share"), std::string::npos);
}

// Either all ranks have the same figures about the links, or no rank has any.
TEST(Links, AreTheSameOnAllRanks) {
  const bool through_mpi = world().size() > 1 && (world().node_count() > 1 || !world().shares_memory());
  const auto links = world().links();
  ASSERT_EQ(links.has_value(), through_mpi);
  if (!links) return;
  EXPECT_GT(links->latency_seconds, 0);
  EXPECT_GT(links->bytes_per_second, 0);
  EXPECT_GT(links->message_seconds, 0);
  if (const auto given = given_node_links()) {
    EXPECT_EQ(*links, *given);
  }
  std::vector<NodeLinks> all(static_cast<std::size_t>(world().size()));
  world().group().all_gather(std::as_bytes(std::span(&*links, 1)), std::as_writable_bytes(std::span(all)));
  for (const auto& other : all) EXPECT_EQ(other, *links);
}

// Returns the nodes between which payload goes through MPI.
std::vector<int> nodes_of_ranks() {
  std::vector<int> nodes = world().nodes();
  if (!world().shares_memory()) std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

// For all algorithms that the links can select. The sizes use one round or two and one block or several, and are not
// multiples of the number of ranks.
TEST(Links, DoNotChangeTheBitsOfASum) {
  const auto nodes = nodes_of_ranks();
  const auto n = static_cast<std::size_t>(world().size());
  for (const std::size_t count : {1, 2, 5, 1009, 70001, 1500007}) {
    const auto in = testing::addends<float>(world().rank(), count);
    std::vector<float> out(count);
    std::vector<float> part(count / n);
    world().group().all_reduce(bytes_of(in), bytes_of(out), DType::kF32, Reduction::kSum);
    world().group().reduce_scatter(bytes_of(in).first(part.size() * n * sizeof(float)), bytes_of(part), DType::kF32,
                                   Reduction::kSum);
    for (std::size_t i = 0; i<count; i += count> 5000 ? 13 : 1) {
      ASSERT_TRUE(testing::same_bits(out[i], testing::documented_sum<float>(nodes, i))) << i << " of " << count;
      const std::size_t begin = static_cast<std::size_t>(world().rank()) * part.size();
      if (i >= begin && i < begin + part.size()) {
        ASSERT_TRUE(testing::same_bits(part[i - begin], out[i])) << i << " of " << count;
      }
    }
  }
}

TEST(Links, DoNotChangeTheDataOfABroadcast) {
  for (const std::size_t count : {1, 2, 7, 4099, 300007})
    for (int root = 0; root < world().size(); ++root) {
      auto data = testing::addends<float>(world().rank() == root ? root : 99, count);
      world().group().broadcast(bytes_of(data), root);
      ASSERT_TRUE(testing::alike(data, testing::addends<float>(root, count))) << count << " from " << root;
    }
}

TEST(Progress, AThreadExistsOnRequest) {
  const auto& asked = options().text("TESSERA_PROGRESS");
  if (asked == "auto") GTEST_SKIP() << "as there are cores";
  EXPECT_EQ(world().has_progress_thread(), asked == "1" && world().links().has_value());
}

// Data arrives while the rank makes no calls. A started collective has several steps; each step waits for the messages
// of the previous one.
TEST(Progress, TheThreadCompletesStartedCollectives) {
  if (options().text("TESSERA_PROGRESS") != "1" || !world().links()) GTEST_SKIP() << "not every rank has one";
  const auto nodes = nodes_of_ranks();
  std::vector<std::vector<int>> columns;  // groups with one rank of each node
  std::vector<int> seen(static_cast<std::size_t>(world().size()), 0);
  for (int rank = 0; rank < world().size(); ++rank) {
    const auto place = static_cast<std::size_t>(at(seen, at(nodes, rank))++);
    if (place == columns.size()) columns.emplace_back();
    columns[place].push_back(rank);
  }
  const auto group = world().group().split(columns, "columns");
  const std::vector<float> in(1 << 20, 1.0F);
  for (int round = 0; round < 3; ++round) {
    std::vector<float> out(in.size());
    const auto pending = group->start_all_reduce(bytes_of(in), bytes_of(out), DType::kF32, Reduction::kSum);
    const auto sum = static_cast<float>(group->size());
    const auto has_come = [&](std::size_t i) { return std::atomic_ref(out[i]).load(std::memory_order_relaxed) == sum; };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::size_t next = 0;
    while (next < out.size() && std::chrono::steady_clock::now() < deadline) {
      while (next < out.size() && has_come(next)) ++next;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(next, out.size()) << "round " << round;
    pending->wait();
    EXPECT_TRUE(pending->test());
  }
}

// Starts many collectives on ranks that arrive late, and waits for them in another order.
TEST(Progress, ManyPendingCollectivesEndInAnyOrder) {
  const auto nodes = nodes_of_ranks();
  const std::size_t count = 30011;
  const auto in = testing::addends<float>(world().rank(), count);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::vector<float>> out(6, std::vector<float>(count));
    std::vector<std::unique_ptr<PendingOperation>> pending;
    for (auto& target : out) {
      pending.push_back(world().group().start_all_reduce(bytes_of(in), bytes_of(target), DType::kF32, Reduction::kSum));
      if (world().rank() == round % world().size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      (void)pending.front()->test();
    }
    for (const std::size_t k : {3, 0, 5, 1}) pending[k]->wait();
    for (const std::size_t k : {2, 4}) wait_unseen(std::move(pending[k]));
    for (const auto& result : out) ASSERT_TRUE(testing::alike(result, out[0]));
    for (std::size_t i = 0; i < count; i += 101)
      ASSERT_TRUE(testing::same_bits(out[0][i], testing::documented_sum<float>(nodes, i)));
  }
}

// Memory next to the buffers does not change, for all sizes.
TEST(World, NothingIsWrittenOutsideOfABuffer) {
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
