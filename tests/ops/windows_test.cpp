// SPDX-License-Identifier: Apache-2.0
// Convolutions and windows, computed by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "run_text.h"

namespace tessera {
namespace {

const std::string kReducers =
    "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
    "most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }\n"
    "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=GE }\n";

std::vector<float> result_of(const std::string& body) {
  const Literal out =
      evaluate(parse_program("HloModule test\n" + kReducers + "ENTRY main {\n" + body + "}\n", op_table()), {});
  const auto data = out.data<float>();
  return {data.begin(), data.end()};
}

// Convolves the image 1 2 3 4 with the kernel 1 10.
std::vector<float> slid(const std::string& window) {
  return result_of(
      "x = f32[1,4,1] constant({{{1},{2},{3},{4}}})\n"
      "w = f32[2,1,1] constant({{{1}},{{10}}})\n"
      "ROOT y = convolution(x, w), window={size=2 " +
      window + "}, dim_labels=b0f_0io->b0f\n");
}

using Floats = std::vector<float>;

TEST(Convolution, SlidesByTheStrideWithPaddingThatMayBeNegative) {
  EXPECT_EQ(slid(""), Floats({21, 32, 43}));
  EXPECT_EQ(slid("pad=1_1"), Floats({10, 21, 32, 43, 4}));
  EXPECT_EQ(slid("stride=2 pad=1_0"), Floats({10, 32}));
  EXPECT_EQ(slid("pad=-1_0"), Floats({32, 43}));
  EXPECT_EQ(slid("pad=-1_-1"), Floats({32}));
}

TEST(Convolution, DilatesImageAndKernelAndReversesTheKernel) {
  EXPECT_EQ(slid("lhs_dilate=2"), Floats({1, 20, 2, 30, 3, 40}));
  EXPECT_EQ(slid("rhs_dilate=2"), Floats({31, 42}));
  EXPECT_EQ(slid("rhs_reversal=1"), Floats({12, 23, 34}));
  EXPECT_EQ(slid("rhs_dilate=5"), Floats());
}

TEST(Convolution, FeatureGroupsUseOnlyTheirFeatures) {
  EXPECT_EQ(result_of("x = f32[1,4] constant({{1,2,3,4}})\n"
                      "w = f32[2,2] constant({{1,5},{10,50}})\n"
                      "ROOT y = convolution(x, w), dim_labels=bf_io->bf, feature_group_count=2\n"),
            Floats({21, 215}));
}

TEST(Convolution, BatchGroupsUseOnlyTheirRows) {
  EXPECT_EQ(result_of("x = f32[4,1] constant({{3},{4},{30},{40}})\n"
                      "w = f32[1,2] constant({{5,7}})\n"
                      "ROOT y = convolution(x, w), dim_labels=bf_io->bf, batch_group_count=2\n"),
            Floats({15, 210, 20, 280}));
}

TEST(Convolution, TheResultTypeDeterminesTheTypeOfTheSum) {
  EXPECT_EQ(result_of("x = s8[1,2] constant({{-3,1}})\n"
                      "w = s8[2,1] constant({{2},{1}})\n"
                      "ROOT y = f32[1,1] convolution(x, w), dim_labels=bf_io->bf\n"),
            Floats({-5}));
}

TEST(Convolution, LabelsDetermineTheRoleOfEachDim) {
  // The image [f, 0, b] = [2, 2, 1], the kernel [o, i, 0] = [1, 2, 1].
  EXPECT_EQ(result_of("x = f32[2,2,1] constant({{{1},{2}},{{3},{4}}})\n"
                      "w = f32[1,2,1] constant({{{10},{100}}})\n"
                      "ROOT y = convolution(x, w), window={size=1}, dim_labels=f0b_oi0->0bf\n"),
            Floats({310, 420}));
}

TEST(Convolution, ErrorsNameTheSizesThatDoNotMatch) {
  const auto message = [](const std::string& attributes) -> std::string {
    try {
      result_of("x = f32[1,4,3] parameter(0)\nw = f32[2,3,5] parameter(1)\nROOT y = convolution(x, w), " + attributes +
                "\n");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message("window={size=3}, dim_labels=b0f_0io->b0f").find("window dim 0 is 3 wide, rhs dim 0 is 2"),
            std::string::npos);
  EXPECT_NE(message("window={size=2}, dim_labels=b0f_0oi->b0f").find("lhs has 3 features (dim 2), rhs takes 5"),
            std::string::npos);
  EXPECT_NE(message("window={size=2 strid=2}, dim_labels=b0f_0io->b0f").find("a window has no \"strid\""),
            std::string::npos);
  EXPECT_NE(message("window={size=2x2}, dim_labels=b0f_0io->b0f").find("has 2 dims, 1 are needed"), std::string::npos);
}

std::vector<float> reduced(const std::string& rest, const std::string& init = "0") {
  return result_of("x = f32[3] constant({1,2,3})\ninit = f32[] constant(" + init +
                   ")\nROOT y = reduce-window(x, init)" + rest + "\n");
}

TEST(ReduceWindow, PaddingAndHolesDoNotContribute) {
  EXPECT_EQ(reduced(", window={size=2 pad=1_1}, to_apply=sum"), Floats({1, 3, 5, 3}));
  EXPECT_EQ(reduced(", window={size=2 pad=1_1}, to_apply=sum", "10"), Floats({11, 13, 15, 13}));
  EXPECT_EQ(reduced(", window={size=2 lhs_dilate=2}, to_apply=sum"), Floats({1, 2, 2, 3}));
  EXPECT_EQ(reduced(", window={size=2 rhs_dilate=2}, to_apply=sum"), Floats({4}));
  EXPECT_EQ(reduced(", window={size=1 stride=2 pad=1_1}, to_apply=most", "-inf"), Floats({-INFINITY, 2, -INFINITY}));
}

TEST(ReduceWindow, WithoutAWindowEachElementIsCombinedWithTheInit) {
  EXPECT_EQ(reduced(", to_apply=sum", "10"), Floats({11, 12, 13}));
}

TEST(SelectAndScatter, AddsToThePreferredElementTheFirstAmongEqualOnes) {
  EXPECT_EQ(result_of("x = f32[5] constant({1,5,2,5,5})\ns = f32[4] constant({1,2,3,4})\nz = f32[] constant(0.5)\n"
                      "ROOT y = select-and-scatter(x, s, z), window={size=2}, select=ge, scatter=sum\n"),
            Floats({0.5, 3.5, 0.5, 7.5, 0.5}));
}

TEST(SelectAndScatter, PaddingIsNeverSelected) {
  EXPECT_EQ(result_of("x = f32[2] constant({-3,-7})\ns = f32[3] constant({1,2,4})\nz = f32[] constant(0)\n"
                      "ROOT y = select-and-scatter(x, s, z), window={size=2 pad=1_1}, select=ge, scatter=sum\n"),
            Floats({3, 4}));
}

}  // namespace
}  // namespace tessera
