// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/error.h"

#include <gtest/gtest.h>

namespace tessera {

// External linkage, because the stack trace names exported functions only.
[[gnu::noinline]] void break_an_invariant(int sizes) {
  ensure(sizes == 2, "a pair has {} parts", sizes);
  ADD_FAILURE() << "not reached";
}

namespace {

TEST(InternalError, CarriesTheStackAndAsksForAReport) {
  try {
    break_an_invariant(3);
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(), "a pair has 3 parts");
    EXPECT_NE(error.stack().find("break_an_invariant"), std::string::npos) << error.stack();
    const std::string message = message_for_user(error);
    EXPECT_TRUE(message.starts_with("internal error, please report it: a pair has 3 parts\n")) << message;
    EXPECT_TRUE(message.ends_with(error.stack()));
  }
}

TEST(Error, HasNoStackInItsMessageForTheUser) { EXPECT_EQ(message_for_user(Error("no such file")), "no such file"); }

}  // namespace
}  // namespace tessera
