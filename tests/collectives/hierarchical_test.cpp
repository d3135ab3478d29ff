// SPDX-License-Identifier: Apache-2.0
// Groups over several nodes of virtual ranks: their results bit by bit, and the order of their chunks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "collectives/documented_sum.h"
#include "collectives/semantics.h"
#include "support/sanitizers.h"
#include "tessera/base/options.h"
#include "tessera/collectives/slow_group.h"
#include "tessera/collectives/virtual_ranks.h"

namespace tessera {
namespace {

using testing::addend;
using testing::addends;
using testing::alike;
using testing::bytes_of;
using testing::documented_sum;
using testing::same_bits;

struct Nodes {
  const char* name;
  std::vector<int> of;  // for each rank
};
void PrintTo(const Nodes& nodes, std::ostream* out) { *out << nodes.name; }

class OnNodes : public ::testing::TestWithParam<Nodes> {
 protected:
  static void run(const std::function<void(ProcessGroup&)>& fn) {
    const auto& nodes = GetParam().of;
    run_virtual_ranks(isize(nodes), fn, {.node_of = [&](int rank) { return at(nodes, rank); }});
  }
};

INSTANTIATE_TEST_SUITE_P(VirtualRanks, OnNodes,
                         ::testing::Values(Nodes{"4on2", {0, 0, 1, 1}}, Nodes{"4on2dealt", {0, 1, 0, 1}},
                                           Nodes{"6on3", {0, 0, 1, 1, 2, 2}}, Nodes{"6on2", {0, 0, 0, 1, 1, 1}},
                                           Nodes{"6on2mixed", {0, 0, 1, 0, 1, 1}},
                                           Nodes{"8on2dealt", {0, 1, 0, 1, 0, 1, 0, 1}},
                                           Nodes{"8on4", {0, 0, 1, 1, 2, 2, 3, 3}}, Nodes{"4on4", {0, 1, 2, 3}},
                                           Nodes{"2on2", {0, 1}}, Nodes{"3on2", {0, 0, 1}}),
                         [](const auto& info) { return std::string(info.param.name); });

// No element, fewer elements than ranks, odd sizes, several chunks with a short last one.
constexpr std::size_t kCounts[] = {0, 1, 5, 1009, 300007};

// Of many elements only some are compared.
std::size_t stride_of(std::size_t count) { return count > 5000 ? 13 * testing::kSanitizedShare : 1; }

template <class T>
void check_all_reduce(const std::vector<int>& nodes, ProcessGroup& g, DType dtype) {
  for (const std::size_t part : kCounts) {
    const std::size_t count = 3 * part + (part > 0 ? 1 : 0);
    auto in = addends<T>(g.rank(), count);
    std::vector<T> out(count);
    std::vector<T> later(count);
    g.all_reduce(bytes_of(in), bytes_of(out), dtype, Reduction::kSum);
    const auto pending = g.start_all_reduce(bytes_of(in), bytes_of(later), dtype, Reduction::kSum);
    pending->wait();
    g.all_reduce(bytes_of(in), bytes_of(in), dtype, Reduction::kSum);
    ASSERT_TRUE(alike(out, later)) << "not blocking, of " << count;
    ASSERT_TRUE(alike(out, in)) << "in place, of " << count;
    for (std::size_t i = 0; i < count; i += stride_of(count))
      ASSERT_TRUE(same_bits(out[i], documented_sum<T>(nodes, i))) << i << " of " << count << " on rank " << g.rank();
  }
}

template <class T>
void check_reduce_scatter(const std::vector<int>& nodes, ProcessGroup& g, DType dtype) {
  for (const std::size_t count : kCounts) {
    const auto in = addends<T>(g.rank(), count * static_cast<std::size_t>(g.size()));
    std::vector<T> out(count);
    std::vector<T> later(count);
    const auto pending = g.start_reduce_scatter(bytes_of(in), bytes_of(later), dtype, Reduction::kSum);
    g.reduce_scatter(bytes_of(in), bytes_of(out), dtype, Reduction::kSum);  // while another one is pending
    pending->wait();
    ASSERT_TRUE(alike(out, later)) << "not blocking, of " << count;
    for (std::size_t i = 0; i < count; i += stride_of(count))
      ASSERT_TRUE(same_bits(out[i], documented_sum<T>(nodes, static_cast<std::size_t>(g.rank()) * count + i)))
          << i << " of " << count << " on rank " << g.rank();
  }
}

// With links that lead to many chunks, and to one.
TEST_P(OnNodes, SumsHaveTheBitsOfTheDocumentedOrderForAllLinks) {
  const auto& nodes = GetParam().of;
  for (const char* link : {"0.01,1", "1000000,1"})
    run([&](ProcessGroup& g) {
      options().set("TESSERA_LINK", link);
      check_all_reduce<float>(nodes, g, DType::kF32);
      check_all_reduce<BFloat16>(nodes, g, DType::kBF16);
      check_reduce_scatter<float>(nodes, g, DType::kF32);
      check_reduce_scatter<BFloat16>(nodes, g, DType::kBF16);
    });
}

TEST_P(OnNodes, GathersConcatenateInRankOrderForAllSizes) {
  run([&](ProcessGroup& g) {
    for (const std::size_t count : kCounts) {
      const auto in = addends<float>(g.rank(), count);
      const auto n = static_cast<std::size_t>(g.size());
      std::vector<float> out(count * n + 16, -1.0F);
      std::vector<float> later(count * n);
      const auto pending = g.start_all_gather(bytes_of(in), bytes_of(later));
      g.all_gather(bytes_of(in), bytes_of(out).first(count * n * sizeof(float)));
      pending->wait();
      ASSERT_TRUE(std::equal(later.begin(), later.end(), out.begin())) << count;
      for (std::size_t rank = 0; rank < n; ++rank)
        for (std::size_t i = 0; i < count; i += stride_of(count))
          ASSERT_EQ(out[rank * count + i], addend(static_cast<int>(rank), i)) << i << " of " << count;
      for (std::size_t i = count * n; i < out.size(); ++i) ASSERT_EQ(out[i], -1.0F) << "beyond the end";
    }
  });
}

// Starts several collectives and waits for them in another order.
TEST_P(OnNodes, SeveralCollectivesMayBePending) {
  const auto& nodes = GetParam().of;
  run([&](ProcessGroup& g) {
    const std::size_t count = 300007;
    const auto in = addends<float>(g.rank(), count);
    std::vector<std::vector<float>> out(3, std::vector<float>(count));
    std::vector<std::unique_ptr<PendingOperation>> pending;
    for (auto& target : out)
      pending.push_back(g.start_all_reduce(bytes_of(in), bytes_of(target), DType::kF32, Reduction::kSum));
    for (const std::size_t k : {1, 2, 0}) pending[k]->wait();
    for (const auto& result : out) {
      ASSERT_TRUE(result == out[0]);
      for (std::size_t i = 0; i < count; i += 101) ASSERT_TRUE(same_bits(result[i], documented_sum<float>(nodes, i)));
    }
  });
}

// Records when operations between nodes are started and waited for: "+0 +1 -0 …".
class Watched final : public PendingOperation {
 public:
  Watched(std::unique_ptr<PendingOperation> operation, int number, std::string& events)
      : operation_(std::move(operation)), number_(number), events_(events) {
    events_ += "+" + std::to_string(number_) + " ";
  }
  void wait() override {
    operation_->wait();
    events_ += "-" + std::to_string(number_) + " ";
  }
  bool test() override { return operation_->test(); }

 private:
  std::unique_ptr<PendingOperation> operation_;
  int number_;
  std::string& events_;
};

class WatchedGroup final : public ProcessGroup {
 public:
  using Bytes = std::span<const std::byte>;
  using MutableBytes = std::span<std::byte>;

  explicit WatchedGroup(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {}
  [[nodiscard]] int rank() const override { return group_->rank(); }
  [[nodiscard]] int size() const override { return group_->size(); }
  [[nodiscard]] const std::string& name() const override { return group_->name(); }
  void all_gather(Bytes in, MutableBytes out, const CollectiveLabel& label) override {
    group_->all_gather(in, out, label);
  }
  void reduce_scatter(Bytes in, MutableBytes out, DType dtype, Reduction op, const CollectiveLabel& label) override {
    group_->reduce_scatter(in, out, dtype, op, label);
  }
  void all_reduce(Bytes in, MutableBytes out, DType dtype, Reduction op, const CollectiveLabel& label) override {
    group_->all_reduce(in, out, dtype, op, label);
  }
  void all_to_all(Bytes in, MutableBytes out, const CollectiveLabel& label) override {
    group_->all_to_all(in, out, label);
  }
  void permute(Bytes in, MutableBytes out, const std::vector<std::pair<int, int>>& pairs,
               const CollectiveLabel& label) override {
    group_->permute(in, out, pairs, label);
  }
  void broadcast(MutableBytes data, int root, const CollectiveLabel& label) override {
    group_->broadcast(data, root, label);
  }
  void barrier(const CollectiveLabel& label) override { group_->barrier(label); }
  std::unique_ptr<PendingOperation> start_all_gather(Bytes in, MutableBytes out,
                                                     const CollectiveLabel& label) override {
    return watch(group_->start_all_gather(in, out, label));
  }
  std::unique_ptr<PendingOperation> start_reduce_scatter(Bytes in, MutableBytes out, DType dtype, Reduction op,
                                                         const CollectiveLabel& label) override {
    return watch(group_->start_reduce_scatter(in, out, dtype, op, label));
  }
  std::unique_ptr<PendingOperation> start_all_reduce(Bytes in, MutableBytes out, DType dtype, Reduction op,
                                                     const CollectiveLabel& label) override {
    return watch(group_->start_all_reduce(in, out, dtype, op, label));
  }
  std::shared_ptr<ProcessGroup> split(const std::vector<std::vector<int>>& groups, const std::string& name) override {
    return group_->split(groups, name);
  }
  [[nodiscard]] const TrafficCounters& traffic() const override { return group_->traffic(); }
  [[nodiscard]] const TrafficCounters& rank_traffic() const override { return group_->rank_traffic(); }
  // Returns the events since the last call.
  std::string events() {
    started_ = 0;
    return std::exchange(events_, "");
  }

 private:
  std::unique_ptr<PendingOperation> watch(std::unique_ptr<PendingOperation> operation) {
    return std::make_unique<Watched>(std::move(operation), started_++, events_);
  }

  std::shared_ptr<ProcessGroup> group_;
  std::string events_;
  int started_ = 0;
};

// Runs four ranks on two nodes. `fn` also gets the group that connects the nodes.
void run_watched(const SlowLinks& links, const std::function<void(ProcessGroup& world, WatchedGroup& cross)>& fn) {
  std::mutex mutex;
  std::map<std::thread::id, std::shared_ptr<WatchedGroup>> crosses;
  run_virtual_ranks(4,
                    [&](ProcessGroup& world) {
                      std::shared_ptr<WatchedGroup> cross;
                      {
                        const std::scoped_lock lock(mutex);
                        cross = crosses.at(std::this_thread::get_id());
                      }
                      fn(world, *cross);
                    },
                    {.node_of = [](int rank) { return rank / 2; },
                     .between_nodes = [&](std::shared_ptr<ProcessGroup> group) -> std::shared_ptr<ProcessGroup> {
                       if (group->size() != 2) return group;  // the group of all ranks
                       auto watched = std::make_shared<WatchedGroup>(slow_down(std::move(group), links));
                       const std::scoped_lock lock(mutex);
                       crosses[std::this_thread::get_id()] = watched;
                       return watched;
                     }});
}

// Before the rank waits for chunk k, chunk k + 1 has been reduced inside the node and started; chunk k + 2 has not.
TEST(Pipelined, TheNextChunkIsStartedBeforeThePreviousOneIsWaitedFor) {
  run_watched({.latency = 1e-4, .bytes_per_second = 1e9}, [](ProcessGroup& world, WatchedGroup& cross) {
    options().set("TESSERA_LINK", "37,1");
    const std::size_t count = 4 * (std::size_t{1} << 18);  // 4 MiB: two for each member of a node, in chunks of 1 MiB
    std::vector<float> in(2 * count, 1.0F);
    std::vector<float> out(2 * count);
    const std::span<std::byte> result = bytes_of(out);
    (void)cross.events();
    world.all_reduce(bytes_of(in), result, DType::kF32, Reduction::kSum);
    EXPECT_EQ(cross.events(), "+0 +1 -0 +2 -1 +3 -2 -3 ");
    world.reduce_scatter(bytes_of(in), result.first(result.size() / 4), DType::kF32, Reduction::kSum);
    EXPECT_EQ(cross.events(), "+0 +1 -0 +2 -1 +3 -2 -3 ");
    world.all_gather(std::as_bytes(std::span(in)).first(result.size() / 4), result);
    EXPECT_EQ(cross.events(), "+0 +1 -0 +2 -1 +3 -2 -3 ");
  });
}

// A non-blocking collective starts all its chunks before it returns.
TEST(Pipelined, AStartedCollectiveHasStartedAllItsChunks) {
  run_watched({.latency = 1e-4}, [](ProcessGroup& world, WatchedGroup& cross) {
    options().set("TESSERA_LINK", "80,1");
    const std::vector<float> in(6 * (std::size_t{1} << 18), 1.0F);
    std::vector<float> out(in.size());
    (void)cross.events();
    const auto pending = world.start_all_reduce(bytes_of(in), bytes_of(out), DType::kF32, Reduction::kSum);
    EXPECT_EQ(cross.events(), "+0 +1 +2 ");
    EXPECT_FALSE(pending->test()) << "the part inside the node is left";
    pending->wait();
    EXPECT_EQ(cross.events(), "-0 -1 -2 ");
    EXPECT_TRUE(pending->test());
    EXPECT_EQ(out.back(), 4.0F);
  });
}

// Each chunk costs a latency: short latencies lead to many chunks; long latencies, or nothing to overlap, lead to one.
TEST(Pipelined, TheNumberOfChunksDependsOnTheLinks) {
  for (const auto& [link, chunks] :
       std::vector<std::pair<const char*, int>>{{"1,1", 8}, {"1000,1", 1}, {"1,100000", 1}})
    run_watched({}, [&](ProcessGroup& world, WatchedGroup& cross) {
      options().set("TESSERA_LINK", link);
      const std::vector<float> in(std::size_t{1} << 21, 1.0F);
      std::vector<float> out(in.size());
      (void)cross.events();
      world.all_reduce(bytes_of(in), bytes_of(out), DType::kF32, Reduction::kSum);
      const std::string events = cross.events();
      EXPECT_EQ(std::count(events.begin(), events.end(), '+'), chunks) << link;
    });
}

// Three transfers of 10 ms each over a link with a latency of 50 ms: transfer times add up, latencies overlap.
TEST(SlowLinks, TransferTimesAddUpAndLatenciesOverlap) {
  using Clock = std::chrono::steady_clock;
  run_virtual_ranks(2, [](ProcessGroup& world) {
    const auto slow = slow_down(std::shared_ptr<ProcessGroup>(&world, [](ProcessGroup*) {}),
                                {.latency = 0.05, .bytes_per_second = 1e6});
    const std::vector<std::byte> in(10000);
    std::vector<std::vector<std::byte>> out(3, std::vector<std::byte>(20000));
    std::vector<std::unique_ptr<PendingOperation>> pending;
    const auto begin = Clock::now();
    for (auto& target : out) pending.push_back(slow->start_all_gather(in, target));
    for (const auto& operation : pending) operation->wait();
    EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(80));
  });
}

}  // namespace
}  // namespace tessera
