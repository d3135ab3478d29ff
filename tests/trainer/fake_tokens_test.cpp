// SPDX-License-Identifier: Apache-2.0
// The random tokens of run_clm --fake_data.
#include "clm/fake_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tessera::trainer {
namespace {

std::vector<std::int32_t> ids_of(const data::Arrays& sample, const char* name = "input_ids") {
  const auto ids = sample.at(name).data<std::int32_t>();
  return {ids.begin(), ids.end()};
}

TEST(FakeTokens, FollowFromTheSeedAndTheNumberOfTheSample) {
  const FakeTokens tokens(7, 13, 50257, 42);
  EXPECT_EQ(tokens.size(), 7);
  EXPECT_EQ(tokens.length(3), 13);
  const auto ids = ids_of(tokens.get(3));
  EXPECT_EQ(ids.size(), 13U);
  EXPECT_EQ(ids_of(tokens.get(3), "labels"), ids);  // the model shifts them
  EXPECT_EQ(ids_of(FakeTokens(9, 13, 50257, 42).get(3)), ids);
  EXPECT_NE(ids_of(FakeTokens(7, 13, 50257, 43).get(3)), ids);
  EXPECT_NE(ids_of(tokens.get(4)), ids);
}

// A rank reads only its columns.
TEST(FakeTokens, PartsAreThoseOfTheSample) {
  const FakeTokens tokens(7, 13, 101, 1);
  const auto ids = ids_of(tokens.get(6));
  EXPECT_EQ(ids_of(tokens.get_part(6, {4, 11})), std::vector<std::int32_t>(ids.begin() + 4, ids.begin() + 11));
  EXPECT_TRUE(ids_of(tokens.get_part(6, {13, 13})).empty());
}

TEST(FakeTokens, HaveEveryIdOfTheVocabularyAboutEquallyOften) {
  constexpr std::int64_t kVocabulary = 11;
  const FakeTokens tokens(100, 110, kVocabulary, 5);
  std::vector<int> counts(kVocabulary);
  for (std::int64_t i = 0; i < tokens.size(); ++i)
    for (const std::int32_t id : ids_of(tokens.get(i))) {
      ASSERT_TRUE(id >= 0 && id < kVocabulary) << id;
      ++counts[static_cast<std::size_t>(id)];
    }
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  EXPECT_GT(*least, 850);  // of 1000 on average, with a deviation of 30
  EXPECT_LT(*most, 1150);
}

}  // namespace
}  // namespace tessera::trainer
