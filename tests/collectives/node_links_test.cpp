// SPDX-License-Identifier: Apache-2.0
// How the links between nodes select the algorithm of a collective: the break-even points of the model in node_links.h.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/collectives/node_links.h"

namespace tessera {
namespace {

std::optional<NodeLinks> given(const char* text) {
  RankContext context(0, 1);
  const RankScope scope(context);
  options().set("TESSERA_LINK", text);
  return given_node_links();
}

NodeLinks links(double microseconds, double gigabytes, double message_microseconds = 0.5) {
  return {.latency_seconds = microseconds * 1e-6,
          .bytes_per_second = gigabytes * 1e9,
          .message_seconds = message_microseconds * 1e-6};
}

TEST(NodeLinks, AreGivenAsMicrosecondsAndGigabytesPerSecond) {
  EXPECT_FALSE(given("").has_value());
  const auto two = given("50, 1.2");
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ(two->str(), "50.0 us, 1.20 GB/s per rank, 0.50 us for each further message");
  EXPECT_EQ(given("3,10,0.25")->str(), "3.0 us, 10.00 GB/s per rank, 0.25 us for each further message");
  for (const char* wrong : {"50", "1,2,3,4", "50,fast", "50,0", "-1,2", "50,1,", "inf,1", "1e400,1"}) {
    try {
      given(wrong);
      ADD_FAILURE() << wrong << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(
          std::string(error.what()),
          std::string("TESSERA_LINK=") + wrong +
              ": must be a latency in us and GB/s, as in 50,1.2, optionally followed by us for each further message");
    }
  }
}

TEST(NodeLinks, AnAllReduceOfTwoMembersTakesOneRoundIfThatIsFaster) {
  EXPECT_TRUE(all_reduces_in_one_round(links(10, 1), 2, 64 << 10));
  EXPECT_FALSE(all_reduces_in_one_round(links(10, 1), 2, 1 << 20));
  EXPECT_TRUE(all_reduces_in_one_round(links(1000, 1), 2, 1 << 20));
  EXPECT_FALSE(all_reduces_in_one_round(links(1e6, 1), 2, 3 << 20)) << "more than 4 MiB would be received";
}

TEST(NodeLinks, AnAllReduceOfManyMembersComparesALatencyWithBytes) {
  // With 8 members, one round receives 7 operands and two rounds receive 1.75: a difference of 5.25.
  EXPECT_TRUE(all_reduces_in_one_round(links(10, 1), 8, 1 << 10));
  EXPECT_FALSE(all_reduces_in_one_round(links(10, 1), 8, 4 << 10));
  EXPECT_TRUE(all_reduces_in_one_round(links(10, 10), 8, 4 << 10));
  EXPECT_TRUE(all_reduces_in_one_round(links(100, 1), 8, 4 << 10));
}

TEST(NodeLinks, GathersDoubleTheirPartsIfMessagesCostMoreThanLatencies) {
  EXPECT_FALSE(gathers_by_doubling(links(1, 1, 100), 2)) << "there is one message";
  EXPECT_TRUE(gathers_by_doubling(links(1, 1, 100), 6));
  EXPECT_FALSE(gathers_by_doubling(links(100, 1, 1), 6));
  EXPECT_TRUE(gathers_by_doubling(links(20, 1, 1), 256));
  EXPECT_FALSE(gathers_by_doubling(links(20, 1, 1), 16));
}

TEST(NodeLinks, LargeBroadcastsToSeveralMembersAreSentInSlices) {
  EXPECT_FALSE(broadcasts_in_slices(links(1, 1), 2, 64 << 20));
  EXPECT_TRUE(broadcasts_in_slices(links(10, 1), 3, 64 << 20));
  EXPECT_TRUE(broadcasts_in_slices(links(10, 1), 8, 1 << 20));
  EXPECT_FALSE(broadcasts_in_slices(links(10, 1, 5), 8, 1 << 10));
}

TEST(NodeLinks, LongLatenciesAndLittleOverlapReduceTheNumberOfChunks) {
  const double mib = 1 << 20;
  const auto count = [&](double microseconds, double gigabytes, double between, double inside) {
    return best_chunk_count(links(microseconds, gigabytes), between * mib, inside * mib, 2);
  };
  EXPECT_EQ(count(10, 1, 0, 0), 1U);
  EXPECT_GT(count(10, 1, 64, 128), count(100, 1, 64, 128));
  EXPECT_GT(count(10, 1, 64, 128), count(10, 1, 1, 2));
  EXPECT_GT(count(10, 1, 64, 128), count(10, 1, 64, 1)) << "nothing inside to hide";
  EXPECT_GT(count(10, 1, 64, 128), count(10, 100, 64, 128)) << "nothing between to hide";
  EXPECT_EQ(count(1e6, 1, 64, 128), 1U);
}

}  // namespace
}  // namespace tessera
