// SPDX-License-Identifier: Apache-2.0
// at() in a translation unit with _GLIBCXX_ASSERTIONS.
#include <gtest/gtest.h>

#include <array>

#include "tessera/base/text.h"

namespace tessera {
namespace {

struct Element {
  int value = 0;
};

TEST(CheckedAt, AnIndexOutOfRangeEndsTheProcessWithTheLocation) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::array<Element, 3> three = {{{1}, {2}, {3}}};
  EXPECT_EQ(at(three, 2).value, 3);
  EXPECT_DEATH((void)at(three, 3), "checked_at_test.cpp:[0-9]+: at\\(\\): index 3 of 3 elements");
  EXPECT_DEATH((void)at(three, -1), "at\\(\\): index -1 of 3 elements");
}

}  // namespace
}  // namespace tessera
