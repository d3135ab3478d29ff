// SPDX-License-Identifier: Apache-2.0
// The possible ends of a pending collective: waited for, dropped, replaced, or dropped after an error.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/collectives/process_group.h"

namespace tessera {
namespace {

// Writes 7 to its target when it is waited for, or throws.
class Writing : public PendingOperation {
 public:
  explicit Writing(int* target, std::string error = "") : target_(target), error_(std::move(error)) {}
  void wait() override {
    if (!error_.empty()) throw Error(error_);
    *target_ = 7;
  }
  bool test() override { return *target_ == 7; }

 private:
  int* target_;
  std::string error_;
};

using Numbers = std::shared_ptr<std::vector<int>>;

Pending<Numbers> start(const Numbers& numbers, const std::string& error = "") {
  return {std::make_unique<Writing>(numbers->data(), error), numbers};
}
Numbers zero() { return std::make_shared<std::vector<int>>(1, 0); }

TEST(Pending, WaitReturnsAfterTheBuffersAreFilled) {
  Pending<Numbers> pending = start(zero());
  EXPECT_FALSE(pending.test());
  EXPECT_EQ(pending.wait()->front(), 7);
  EXPECT_TRUE(pending.test());
}

TEST(Pending, DroppingOneWaitsForIt) {
  const Numbers numbers = zero();
  { const Pending<Numbers> dropped = start(numbers); }
  EXPECT_EQ(numbers->front(), 7);
}

TEST(Pending, ReplacingOneWaitsForTheOldOne) {
  const Numbers old = zero();
  const Numbers fresh = zero();
  Pending<Numbers> pending = start(old);
  pending = start(fresh);
  EXPECT_EQ(old->front(), 7);
  EXPECT_EQ(fresh->front(), 0);
  EXPECT_EQ(pending.wait(), fresh);
}

TEST(Pending, MovingOneDoesNotWait) {
  const Numbers numbers = zero();
  Pending<Numbers> from = start(numbers);
  Pending<Numbers> to = std::move(from);
  EXPECT_EQ(numbers->front(), 0);
  EXPECT_EQ(to.wait(), numbers);
}

TEST(Pending, AnErrorIsThrownOnceByWait) {
  Pending<Numbers> pending = start(zero(), "ranks diverge");
  EXPECT_THROW(pending.wait(), Error);
  EXPECT_TRUE(pending.test());
}  // the destructor has nothing left to wait for

TEST(Pending, AnErrorOfADroppedOneIsIgnoredDuringUnwinding) {
  try {
    const Pending<Numbers> dropped = start(zero(), "a second error");
    fail("the first error");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the first error");
  }
}

TEST(PendingDeathTest, AnErrorOfADroppedOneEndsTheProgramWithItsMessage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto drop = [] {
    std::set_terminate([] {
      try {
        std::rethrow_exception(std::current_exception());
      } catch (const Error& error) {
        std::fprintf(stderr, "ended by: %s\n", error.what());
      }
      std::_Exit(1);
    });
    const Pending<Numbers> dropped = start(zero(), "rank 2 died");
  };
  EXPECT_EXIT(drop(), ::testing::ExitedWithCode(1), "ended by: rank 2 died");
}

}  // namespace
}  // namespace tessera
