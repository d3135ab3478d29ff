// SPDX-License-Identifier: Apache-2.0
#include "shared_memory/backoff.h"

#include <gtest/gtest.h>

#include "tessera/collectives/time_limit.h"

namespace tessera::collectives {
namespace {

// Waits for rank 1, which never arrives, until the timeout.
std::string message_of_timeout(Node& node) {
  const TimeLimit limit(std::chrono::seconds(0));
  const std::string text = "barrier over {data}";
  Backoff backoff(node, text);
  try {
    while (true) backoff.pause([] { return std::vector<int>{1}; });
  } catch (const CollectiveTimeout& error) {
    return error.what();
  }
}

// Another rank of the node, whose timeout expires a moment later, names the rank for which this one waited.
TEST(Backoff, ARankThatTimedOutStillShowsForWhichRanksItWaited) {
  Node node(0, 2);
  const std::string message = message_of_timeout(node);
  EXPECT_NE(message.find("rank 1 has not arrived"), std::string::npos) << message;
  const RankActivity activity = node.activity(0);
  EXPECT_EQ(activity.state, RankActivity::State::kWaits);
  EXPECT_EQ(activity.text, "barrier over {data}");
  EXPECT_EQ(activity.awaited, std::vector<int>{1});
}

TEST(Backoff, ARankThatWorksAfterATimeoutDoesNotWait) {
  Node node(0, 2);
  message_of_timeout(node);
  node.works_on("");  // what a program reports that ends by an exception
  EXPECT_EQ(node.activity(0).state, RankActivity::State::kWaits);
  node.works_on("runs %dot.1 (dot)");
  EXPECT_EQ(node.activity(0).state, RankActivity::State::kWorks);
}

}  // namespace
}  // namespace tessera::collectives
