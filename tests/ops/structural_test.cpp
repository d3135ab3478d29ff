// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ops/run_text.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

const std::string kMatrix = "s32[2,3] {{1, 2, 3}, {4, 5, 6}}";

TEST(Pad, InteriorAndNegativeAmountsCombine) {
  EXPECT_EQ(run("s32[6] pad(%a, %b), padding=1_2_1", {"s32[2] {5, 6}", "s32[] 9"}), "{9, 5, 9, 6, 9, 9}");
  EXPECT_EQ(run("s32[2] pad(%a, %b), padding=-1_-2", {"s32[5] {1, 2, 3, 4, 5}", "s32[] 9"}), "{2, 3}");
  EXPECT_EQ(run("s32[5] pad(%a, %b), padding=-1_1_1", {"s32[3] {1, 2, 3}", "s32[] 9"}), "{9, 2, 9, 3, 9}");
  EXPECT_EQ(run("s32[1] pad(%a, %b), padding=-3_-1_1", {"s32[3] {1, 2, 3}", "s32[] 9"}), "{9}");
  EXPECT_EQ(run("s32[2] pad(%a, %b), padding=5_-3", {"s32[0] {}", "s32[] 9"}), "{9, 9}");
  EXPECT_EQ(run("s32[3,2] pad(%a, %b), padding=0_1x-1_0", {kMatrix, "s32[] 0"}), "{{2, 3}, {5, 6}, {0, 0}}");
}

TEST(Slice, TakesEveryElementAtAMultipleOfTheStride) {
  EXPECT_EQ(run("s32[2] slice(%a), slice={[1:5:2]}", {"s32[6] {0, 1, 2, 3, 4, 5}"}), "{1, 3}");
  EXPECT_EQ(run("s32[2] slice(%a), slice={[1:5:3]}", {"s32[6] {0, 1, 2, 3, 4, 5}"}), "{1, 4}");
  EXPECT_EQ(run("s32[1,2] slice(%a), slice={[1:2], [0:3:2]}", {kMatrix}), "{{4, 6}}");
}

TEST(DataMovement, PutElementsAtTheirPositionsInHlo) {
  EXPECT_EQ(run("s32[3,2] transpose(%a), dimensions={1,0}", {kMatrix}), "{{1, 4}, {2, 5}, {3, 6}}");
  EXPECT_EQ(run("s32[3,2] reshape(%a)", {kMatrix}), "{{1, 2}, {3, 4}, {5, 6}}");
  EXPECT_EQ(run("s32[2,3] reverse(%a), dimensions={1}", {kMatrix}), "{{3, 2, 1}, {6, 5, 4}}");
  EXPECT_EQ(run("s32[2,3] reverse(%a), dimensions={0,1}", {kMatrix}), "{{6, 5, 4}, {3, 2, 1}}");
  EXPECT_EQ(run("s32[2,2] broadcast(%a), dimensions={0}", {"s32[2] {1, 2}"}), "{{1, 1}, {2, 2}}");
  EXPECT_EQ(run("s32[2,2] broadcast(%a), dimensions={1}", {"s32[2] {1, 2}"}), "{{1, 2}, {1, 2}}");
  EXPECT_EQ(run("s32[3,2] broadcast(%a), dimensions={1,0}", {kMatrix}), "{{1, 4}, {2, 5}, {3, 6}}");
  EXPECT_EQ(run("s32[2,4] concatenate(%a, %b), dimensions={1}", {kMatrix, "s32[2,1] {{7}, {8}}"}),
            "{{1, 2, 3, 7}, {4, 5, 6, 8}}");
  EXPECT_EQ(run("s32[3,3] concatenate(%a, %b), dimensions={0}", {kMatrix, "s32[1,3] {{7, 8, 9}}"}),
            "{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}");
}

TEST(Transpose, PermutesThreeDims) {
  // x[i,j,k] = 100i + 10j + k; result dim 0 is operand dim 2.
  EXPECT_EQ(run("s32[2,1,2] transpose(%a), dimensions={2,1,0}", {"s32[2,1,2] {{{0, 1}}, {{100, 101}}}"}),
            "{{{0, 100}}, {{1, 101}}}");
}

TEST(Iota, CountsAlongOneDim) {
  EXPECT_EQ(run("s32[2,3] iota(), iota_dimension=1", {}), "{{0, 1, 2}, {0, 1, 2}}");
  EXPECT_EQ(run("f32[2,3] iota(), iota_dimension=0", {}), "{{0, 0, 0}, {1, 1, 1}}");
}

TEST(Tuples, ReturnTheirElements) {
  EXPECT_EQ(run("s32[] get-tuple-element(%a), index=1", {"(f32[],s32[]) (1, 2)"}), "2");
}

TEST(AttributeTexts, SlicesAndPaddingReadBackAsPrinted) {
  std::vector<SliceRange> ranges;
  parse_field("{[0:7:2], [ 1 : 3 ]}", ranges);
  EXPECT_EQ(field_text(ranges), "{[0:7:2], [1:3]}");
  std::vector<PaddingDim> padding;
  parse_field("1_-2x0_0_3", padding);
  EXPECT_EQ(field_text(padding), "1_-2x0_0_3");
  EXPECT_THROW(parse_field("{[0:7:2:1]}", ranges), Error);
  EXPECT_THROW(parse_field("{0:7}", ranges), Error);
  EXPECT_THROW(parse_field("1", padding), Error);
  EXPECT_THROW(parse_field("a_b", padding), Error);
}

}  // namespace
}  // namespace tessera
