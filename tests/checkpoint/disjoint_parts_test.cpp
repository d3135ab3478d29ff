// SPDX-License-Identifier: Apache-2.0
// Parts of arrays with and without common elements, compared with a search of all pairs.
#include "files/disjoint_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tessera {
namespace {

bool have_common_element(const TensorPart& a, const TensorPart& b) {
  return intersection(a.region, b.region).element_count() > 0;
}

bool any_pair_has_common_element(const std::vector<TensorPart>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (have_common_element(parts[i], parts[k])) return true;
  return false;
}

// Returns whether a pair was found, and checks it.
bool finds_pair(const std::vector<TensorPart>& parts) {
  const auto found = parts_in_common(parts);
  EXPECT_TRUE(!found || (found->first != found->second && have_common_element(*found->first, *found->second)));
  return found.has_value();
}

TensorPart part(std::vector<Interval> dims) { return {"file", {std::move(dims)}}; }

TEST(PartsInCommon, ScalarsAndEmptyPartsHaveNoneOrAllElements) {
  EXPECT_FALSE(finds_pair({}));
  EXPECT_FALSE(finds_pair({part({})}));
  EXPECT_TRUE(finds_pair({part({}), part({})}));
  const TensorPart empty = part({{0, 10}, {3, 3}});
  EXPECT_FALSE(finds_pair({empty, empty, empty}));
  EXPECT_FALSE(finds_pair({empty, part({{0, 10}, {0, 7}}), empty}));
}

// Four parts around a fifth one: no line divides them.
TEST(PartsInCommon, PartsThatNoLineDividesAreCompared) {
  std::vector<TensorPart> wheel = {part({{0, 1}, {0, 2}}), part({{0, 2}, {2, 3}}), part({{2, 3}, {1, 3}}),
                                   part({{1, 3}, {0, 1}}), part({{1, 2}, {1, 2}})};
  EXPECT_FALSE(finds_pair(wheel));
  wheel.back().region.dims[1].limit = 3;
  EXPECT_TRUE(finds_pair(wheel));
}

// A comparison of all pairs, or of those with the same rows, would take minutes.
TEST(PartsInCommon, ManyPartsTakeLittleTime) {
  constexpr std::int64_t kColumns = 400'000;
  std::vector<TensorPart> parts;
  for (std::int64_t i = 0; i < kColumns; ++i)
    for (const std::int64_t row : {0, 2}) parts.push_back(part({{row, row + 2}, {3 * i, 3 * i + 3}, {0, 1}}));
  for (std::int64_t i = 0; i < kColumns; ++i) parts.push_back(part({{0, 4}, {7, 7}, {0, 1}}));  // without elements
  EXPECT_FALSE(finds_pair(parts));
  parts.push_back(part({{1, 3}, {kColumns, kColumns + 1}, {0, 1}}));
  EXPECT_TRUE(finds_pair(parts));
}

// Divides a region into parts at random places.
void divide(const Region& region, int times, std::mt19937& draw, std::vector<TensorPart>& out) {
  const auto dim = draw() % region.dims.size();
  const Interval interval = region.dims[dim];
  if (times == 0 || interval.size() < 2) return out.push_back({"file", region});
  const auto place =
      interval.start + 1 + static_cast<std::int64_t>(draw() % static_cast<unsigned>(interval.size() - 1));
  for (const Interval& half : {Interval{interval.start, place}, Interval{place, interval.limit}}) {
    Region part = region;
    part.dims[dim] = half;
    divide(part, times - 1, draw, out);
  }
}

TEST(PartsInCommon, AreFoundInRandomDivisionsWithAndWithoutAMovedPart) {
  std::mt19937 draw(7);
  int with_common = 0;
  for (int i = 0; i < 300; ++i) {
    std::vector<TensorPart> parts;
    divide({{{0, 13}, {0, 5}, {0, 17}}}, 6, draw, parts);
    std::shuffle(parts.begin(), parts.end(), draw);
    EXPECT_FALSE(finds_pair(parts)) << i;
    Interval& moved = parts[draw() % parts.size()].region.dims[draw() % 3];
    if (draw() % 2 == 0)
      ++moved.limit;  // perhaps out of the array
    else
      --moved.start;
    const bool expected = any_pair_has_common_element(parts);
    EXPECT_EQ(finds_pair(parts), expected) << i;
    if (expected) ++with_common;
  }
  EXPECT_GT(with_common, 150);
}

}  // namespace
}  // namespace tessera
