// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/lru_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

using Texts = std::vector<std::string>;

TEST(LruCache, GivesUpTheLeastRecentlyUsedValue) {
  LruCache<int, std::string> cache;
  EXPECT_EQ(cache.insert(1, "one", 2), Texts{});
  EXPECT_EQ(cache.insert(2, "two", 2), Texts{});
  ASSERT_NE(cache.find(1), nullptr);
  EXPECT_EQ(*cache.find(1), "one");
  EXPECT_EQ(cache.insert(3, "three", 2), Texts{"two"});
  EXPECT_EQ(cache.find(2), nullptr);
  EXPECT_EQ(*cache.find(1), "one");
  EXPECT_EQ(cache.insert(2, "zwei", 2), Texts{"three"});
  EXPECT_EQ(cache.size(), 2U);
}

TEST(LruCache, AnInsertedValueReplacesThatOfItsKey) {
  LruCache<int, std::string> cache;
  cache.insert(1, "one", 3);
  cache.insert(2, "two", 3);
  EXPECT_EQ(cache.insert(1, "uno", 3), Texts{});
  EXPECT_EQ(*cache.find(1), "uno");
  EXPECT_EQ(cache.size(), 2U);
}

TEST(LruCache, ASmallerLimitGivesUpSeveralValues) {
  LruCache<int, std::string> cache;
  for (int key = 0; key < 5; ++key) cache.insert(key, std::to_string(key), 5);
  EXPECT_EQ(cache.insert(5, "5", 2), (Texts{"0", "1", "2", "3"}));
  EXPECT_EQ(*cache.find(4), "4");
}

}  // namespace
}  // namespace tessera
