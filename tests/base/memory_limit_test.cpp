// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/memory_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/options.h"

namespace tessera {
namespace {

TEST(MemoryLimit, AUnitIsAPowerOf1024) {
  EXPECT_EQ(parse_bytes("4096", "X"), 4096);
  EXPECT_EQ(parse_bytes("2GB", "X"), std::int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("1.5 GiB", "X"), 1'610'612'736);
  EXPECT_EQ(parse_bytes("0", "X"), 0);
  for (const char* wrong : {"", "two", "-1GB", "2 gigs", "1e30GB", "nan", "inf", "2GB ", "GB"}) {
    SCOPED_TRACE(wrong);
    EXPECT_THROW((void)parse_bytes(wrong, "X"), Error);
  }
}

TEST(MemoryLimit, TheVariableIsCheckedWhenItIsRead) {
  try {
    options().set("TESSERA_MEMORY_LIMIT", "2 gigs");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "TESSERA_MEMORY_LIMIT=2 gigs: must be a size such as 2GB or 1.5GiB");
  }
}

TEST(MemoryLimit, TheMemoryOfTheProcessGrowsWithWhatItTouches) {
  constexpr std::int64_t kBytes = 64 << 20;
  const std::int64_t before = process_memory();
  const std::vector<char> touched(kBytes, 1);
  const std::int64_t grown = process_memory() - before;
  EXPECT_GE(grown, kBytes * 9 / 10);
#if defined(__SANITIZE_THREAD__)
  constexpr std::int64_t kShadowBytes = 4 * kBytes;  // TSan keeps four bytes about each byte
#else
  constexpr std::int64_t kShadowBytes = 0;
#endif
  EXPECT_LE(grown, kBytes * 2 + kShadowBytes);
  EXPECT_EQ(touched.back(), 1);
}

TEST(MemoryLimit, TheMachineIsALimit) {
  const auto limits = shared_limits();
  ASSERT_FALSE(limits.empty());
  EXPECT_EQ(limits.back().what, "the machine");
  EXPECT_GT(limits.back().used, 0);
  EXPECT_LT(limits.back().used, limits.back().limit);
}

}  // namespace
}  // namespace tessera
