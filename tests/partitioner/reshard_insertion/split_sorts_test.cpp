// SPDX-License-Identifier: Apache-2.0
// Sorts along a sharded dim of which only the first elements are read: the devices exchange the first elements only.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "partitioner/reshard_insertion/checked_bytes.h"

namespace tessera {
namespace {

using testing::checked_bytes;

constexpr const char* kGreater = "ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER";
// The comparator of JAX, which orders -0 and 0 as equal.
constexpr const char* kLikeJax = R"(z = f32[] constant(0) p = pred[] compare(a, z), direction=EQ
  c = f32[] select(p, z, a) q = pred[] compare(b, z), direction=EQ d = f32[] select(q, z, b)
  ROOT r = pred[] compare(c, d), direction=LT, type=TOTALORDER)";

// Top-k of rows as PyTorch/XLA writes it: values and positions.
std::string top_k(int devices, int size, int k, const std::string& comparator, int from = 0) {
  return fmt::format(R"(HloModule m, num_partitions={0}
f {{ a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) {3} }}
ENTRY e {{
  x = f32[3,{1}] parameter(0), sharding={{devices=[1,{0}]<=[{0}]}}
  i = s32[3,{1}] iota(), iota_dimension=1
  s = (f32[3,{1}], s32[3,{1}]) sort(x, i), dimensions={{1}}, is_stable=true, to_apply=f
  v = f32[3,{1}] get-tuple-element(s), index=0
  p = s32[3,{1}] get-tuple-element(s), index=1
  kv = f32[3,{5}] slice(v), slice={{[0:3],[{4}:{2}]}}
  kp = s32[3,{5}] slice(p), slice={{[0:3],[{4}:{2}]}}
  ROOT t = (f32[3,{5}], s32[3,{5}]) tuple(kv, kp)
}})",
                     devices, size, k, comparator, from, k - from);
}

TEST(SplitSorts, OnlyTheFirstElementsOfEachTileAreExchanged) {
  for (const int devices : {2, 3, 4, 6, 7, 8})
    for (const int k : {1, 3})
      for (const int size : {12 * 7, 101})
        EXPECT_LE(checked_bytes(top_k(devices, size, k, kGreater)), 3 * k * 8 * (devices - 1));
}

// Padding has no place in the order of such a comparator, so the dim must be even.
TEST(SplitSorts, AnyComparatorIfTheDimIsEven) {
  for (const int devices : {2, 3, 4})
    EXPECT_LE(checked_bytes(top_k(devices, 60, 2, kLikeJax)), 3 * 2 * 8 * (devices - 1));
  EXPECT_GT(checked_bytes(top_k(4, 61, 2, kLikeJax)), 3 * 2 * 8 * 3);
}

TEST(SplitSorts, SlicesMayBeginLater) { EXPECT_LE(checked_bytes(top_k(4, 97, 3, kGreater, 2)), 3 * 3 * 8 * 3); }

// The rows are sharded over one axis of a mesh of 2 x 3, the sorted dim over the other one.
TEST(SplitSorts, RowsMayBeShardedToo) {
  std::string text = top_k(6, 101, 2, kGreater);
  text.replace(text.find("[1,6]<=[6]"), 10, "[2,3]<=[6]");
  EXPECT_LE(checked_bytes(text), 2 * 2 * 8 * 2 + 2 * 2 * 8);  // two of the three rows; the results are replicated
}

// Padding is ordered after all elements, also after NaNs with any bits: 11 elements in tiles of 4.
TEST(SplitSorts, NaNsOfAnyKind) {
  for (const std::string direction : {"LT", "GT"})
    for (const std::string values : {"nan, -nan, nan, 1, -inf, inf, nan, 0, -0, -nan, nan",
                                     "nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan",
                                     "-nan, -nan, -nan, -nan, -nan, -nan, -nan, -nan, -nan, -nan, -nan"})
      EXPECT_EQ(checked_bytes(fmt::format(R"(HloModule m, num_partitions=3
g {{ a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) ROOT r = pred[] compare(a, b), direction={0}, type=TOTALORDER }}
ENTRY e {{
  c = f32[11] constant({{{1}}}), sharding={{devices=[3]<=[3]}}
  i = s32[11] iota(), iota_dimension=0
  s = (f32[11], s32[11]) sort(c, i), dimensions={{0}}, is_stable=true, to_apply=g
  p = s32[11] get-tuple-element(s), index=1
  ROOT k = s32[1] slice(p), slice={{[0:1]}}
}})",
                                          direction, values)),
                2 * 8);
}

// One operand, along the first dim, read up to different limits, in ascending and descending order, integers.
TEST(SplitSorts, OneOperand) {
  for (const std::string direction : {"LT", "GT"})
    for (const int devices : {3, 5})
      EXPECT_LE(checked_bytes(fmt::format(R"(HloModule m, num_partitions={0}
f {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = pred[] compare(a, b), direction={1} }}
ENTRY e {{
  x = s32[76,2] parameter(0), sharding={{devices=[{0},1]<=[{0}]}}
  s = s32[76,2] sort(x), dimensions={{0}}, to_apply=f
  one = s32[1,2] slice(s), slice={{[0:1],[0:2]}}
  three = s32[2,2] slice(s), slice={{[1:4:2],[0:2]}}
  ROOT t = (s32[1,2], s32[2,2]) tuple(one, three)
}})",
                                          devices, direction)),
                2 * 4 * 4 * (devices - 1));
}

// If all elements are read, or the first elements of all tiles are most of the dim, the dim is gathered.
TEST(SplitSorts, OtherSortsStay) {
  EXPECT_LE(checked_bytes(top_k(4, 16, 3, kGreater)), 3 * 16 * 4);
  std::string all = top_k(4, 100, 2, kGreater);
  all.replace(all.find("ROOT t = (f32[3,2], s32[3,2]) tuple(kv, kp)"), std::string::npos,
              "ROOT t = (f32[3,2], s32[3,100]) tuple(kv, p)\n}");
  EXPECT_GE(checked_bytes(all), 3 * 75 * 4);
}

}  // namespace
}  // namespace tessera
