// SPDX-License-Identifier: Apache-2.0
// Corner cases computed by hand: transforms, linear algebra, top-k, rounding ops, complex numbers, ragged products.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "run_text.h"
#include "tessera/base/error.h"
#include "tessera/ops/custom_call.h"

namespace tessera {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<double> numbers(const Literal& value) {
  const Literal reals = value.as_reals();
  std::vector<double> out;
  for (std::int64_t i = 0; i < reals.type().element_count(); ++i) out.push_back(element_as_double(reals, i));
  return out;
}

// Runs `ENTRY e { body }` without arguments and returns the result.
Literal run_body(const std::string& body, const std::string& before = "") {
  return evaluate(parse_program("HloModule m\n" + before + "\nENTRY e {\n" + body + "\n}", op_table()), {});
}

void expect_near(const Literal& value, const std::vector<double>& expected, double tolerance = 1e-6) {
  const auto got = numbers(value);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(got[i])) << i;
    else if (std::isinf(expected[i]))
      EXPECT_EQ(got[i], expected[i]) << i;
    else
      EXPECT_NEAR(got[i], expected[i], tolerance) << i;
  }
}

TEST(Fft, OfAnImpulseIsFlatAndOfAWaveOnePeak) {
  expect_near(
      run_body(
          "x = c64[4] constant({(1,0), (0,0), (0,0), (0,0)}) ROOT f = c64[4] fft(x), fft_type=FFT, fft_length={4}"),
      {1, 0, 1, 0, 1, 0, 1, 0});
  // i^n has one period: frequency 1.
  expect_near(
      run_body(
          "x = c64[4] constant({(1,0), (0,1), (-1,0), (0,-1)}) ROOT f = c64[4] fft(x), fft_type=FFT, fft_length={4}"),
      {0, 0, 4, 0, 0, 0, 0, 0});
  expect_near(run_body("x = f32[3] constant({1, 2, 4}) ROOT f = c64[2] fft(x), fft_type=RFFT, fft_length={3}"),
              {7, 0, -2, std::sqrt(3.0)});
  expect_near(run_body("x = f32[3] constant({1, 2, 4}) f = c64[2] fft(x), fft_type=RFFT, fft_length={3}\n"
                       "ROOT b = f32[3] fft(f), fft_type=IRFFT, fft_length={3}"),
              {1, 2, 4});
}

TEST(Fft, InverseRealTransformsIgnoreImpossibleImaginaryParts) {
  expect_near(
      run_body("x = c64[3] constant({(4,9), (0,0), (2,-9)}) ROOT f = f32[4] fft(x), fft_type=IRFFT, fft_length={4}"),
      {1.5, 0.5, 1.5, 0.5});
}

TEST(Cholesky, ReadsOneTriangleAndIsNanWithoutAFactor) {
  expect_near(run_body("a = f32[2,2] constant({{4, 99}, {2, 10}}) ROOT l = f32[2,2] cholesky(a), lower=true"),
              {2, 0, 1, 3});
  expect_near(run_body("a = f32[2,2] constant({{4, 2}, {99, 10}}) ROOT u = f32[2,2] cholesky(a), lower=false"),
              {2, 1, 0, 3});
  const double nan = std::nan("");
  expect_near(run_body("a = f32[2,2] constant({{1, 0}, {2, 1}}) ROOT l = f32[2,2] cholesky(a), lower=true"),
              {nan, nan, nan, nan});
}

TEST(TriangularSolve, FromEitherSideTransposedOrWithOnesOnTheDiagonal) {
  const std::string ab = "a = f32[2,2] constant({{2, 77}, {1, 4}}) b = f32[2,1] constant({{6}, {11}})\n";
  const std::string rest = ", left_side=true, lower=true, unit_diagonal=";
  expect_near(run_body(ab + "ROOT x = f32[2,1] triangular-solve(a, b)" + rest + "false, transpose_a=NO_TRANSPOSE"),
              {3, 2});
  expect_near(run_body(ab + "ROOT x = f32[2,1] triangular-solve(a, b)" + rest + "true, transpose_a=NO_TRANSPOSE"),
              {6, 5});
  // [2 1; 0 4] x = [6, 11]
  expect_near(run_body(ab + "ROOT x = f32[2,1] triangular-solve(a, b)" + rest + "false, transpose_a=TRANSPOSE"),
              {(6 - 2.75) / 2, 2.75});
  // x [2 0; 1 4] = [6, 8]: the second column gives 4 x1 = 8.
  expect_near(run_body("a = f32[2,2] constant({{2, 77}, {1, 4}}) b = f32[1,2] constant({{6, 8}})\n"
                       "ROOT x = f32[1,2] triangular-solve(a, b), lower=true, transpose_a=NO_TRANSPOSE"),
              {2, 2});
}

// Such a custom call is one of another library with the same name.
TEST(TopK, CustomCallsWithOtherResultsAreUnknown) {
  const auto unknown = [](const std::string& results) {
    return unknown_custom_calls(parse_program("HloModule m\nENTRY e { x = f32[2,3] parameter(0)\nROOT t = " + results +
                                                  " custom-call(x), custom_call_target=\"TopK\" }",
                                              op_table()))
        .size();
  };
  EXPECT_EQ(unknown("(f32[2,2], s32[2,2])"), 0);
  EXPECT_EQ(unknown("(f32[1,2], s32[1,2])"), 1);
  EXPECT_EQ(unknown("(f32[2,4], s32[2,4])"), 1);
  EXPECT_EQ(unknown("(f64[2,2], s32[2,2])"), 1);
}

TEST(TopK, KeepsTheFirstOfEqualElementsAndOrdersNanFirst) {
  const Literal out =
      run_body("x = f32[6] constant({2, nan, 7, -inf, 7, -nan}) ROOT t = (f32[4], s32[4]) topk(x), k=4, largest=true");
  EXPECT_EQ(out.elements()[1], Literal::from<std::int32_t>({4}, {1, 2, 4, 0}));
  const Literal least =
      run_body("x = s32[5] constant({3, -1, 9, -1, 0}) ROOT t = (s32[3], s32[3]) topk(x), k=3, largest=false");
  EXPECT_EQ(least.elements()[0], Literal::from<std::int32_t>({3}, {-1, -1, 0}));
  EXPECT_EQ(least.elements()[1], Literal::from<std::int32_t>({3}, {1, 3, 4}));
  const Literal call = run_body(
      "x = f32[2,3] constant({{1, 3, 2}, {6, 4, 5}})\n"
      "ROOT t = (f32[2,2], s32[2,2]) custom-call(x), custom_call_target=\"TopK\"");
  EXPECT_EQ(call.elements()[0], Literal::from<float>({2, 2}, {3, 2, 6, 5}));
}

TEST(ReducePrecision, RoundsTiesToEvenAndFlushesSmallNumbers) {
  expect_near(run_body("x = f32[6] constant({1.0625, 1.1875, 70000, 1e-8, -0.5, inf})\n"
                       "ROOT r = f32[6] reduce-precision(x), exponent_bits=5, mantissa_bits=3"),
              {1, 1.25, kInf, 0, -0.5, kInf}, 0);
  // Without mantissa bits a tie rounds to the even exponent field: 128, the exponent of 2.
  expect_near(
      run_body("x = f32[2] constant({1.5, 3}) ROOT r = f32[2] reduce-precision(x), exponent_bits=8, mantissa_bits=0"),
      {2, 2}, 0);
}

TEST(StochasticConvert, RoundsUpIfTheBitsAreBelowTheFraction) {
  expect_near(
      run_body("x = f32[5] constant({1.25, 1.25, -1.25, nan, 1e20})\n"
               "b = u32[5] constant({1073741823, 1073741824, 0, 0, 0}) ROOT r = s32[5] stochastic-convert(x, b)"),
      {2, 1, -2, 0, 2147483647}, 0);
}

TEST(Complex, ArithmeticAndParts) {
  const std::string xy = "x = c64[2] constant({(1,2), (0,-3)}) y = c64[2] constant({(3,-1), (2,0)})\n";
  expect_near(run_body(xy + "ROOT r = c64[2] multiply(x, y)"), {5, 5, 0, -6});
  expect_near(run_body(xy + "ROOT r = c64[2] divide(x, y)"), {0.1, 0.7, 0, -1.5});
  expect_near(run_body(xy + "ROOT r = f32[2] abs(x)"), {std::sqrt(5.0), 3});
  expect_near(run_body(xy + "ROOT r = f32[2] imag(x)"), {2, -3});
  expect_near(run_body(xy + "ROOT r = pred[2] compare(x, y), direction=NE"), {1, 1});
  expect_near(run_body("x = f32[2] constant({5, -1}) ROOT r = f32[2] imag(x)"), {0, 0});
  expect_near(run_body("x = f32[2] constant({5, -1}) ROOT r = c64[2] convert(x)"), {5, 0, -1, 0});
  EXPECT_THROW(run_body(xy + "ROOT r = f32[2] convert(x)"), Error);
  EXPECT_THROW(run_body(xy + "ROOT r = pred[2] compare(x, y), direction=LT"), Error);
}

TEST(RaggedDot, RowsAfterTheLastGroupAreZero) {
  const std::string x = "x = f32[4,1] constant({{1}, {2}, {3}, {4}}) s = s32[2] constant({1, 2})\n";
  expect_near(run_body(x + "w = f32[2,1,1] constant({{{10}}, {{100}}})\n"
                           "ROOT r = f32[4,1] ragged-dot(x, w, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
                           "lhs_ragged_dims={0}, rhs_group_dims={0}"),
              {10, 200, 300, 0});
  expect_near(
      run_body(x + "w = f32[4,1] constant({{5}, {6}, {7}, {8}})\n"
                   "ROOT r = f32[2,1,1] ragged-dot(x, w, s), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
                   "lhs_ragged_dims={0}"),
      {5, 33});
}

TEST(Map, AppliesItsComputationToEveryElement) {
  expect_near(
      run_body("x = f32[3] constant({1, 2, 3}) y = f32[3] constant({4, 5, 6})\n"
               "ROOT r = f32[3] map(x, y), dimensions={0}, to_apply=f",
               "f { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] multiply(a, b) ROOT d = f32[] add(c, a) }"),
      {5, 12, 21});
}

TEST(DimensionSizes, AreThoseOfTheType) {
  expect_near(run_body("x = f32[2,7] constant({...}) ROOT r = s32[] get-dimension-size(x), dimensions={1}"), {7});
}

TEST(BatchNorm, HasMeanZeroAndTheScaleAsDeviation) {
  const Literal out = run_body(
      "x = f32[2,2] constant({{1, 10}, {3, 10}}) s = f32[2] constant({2, 2}) o = f32[2] constant({5, 6})\n"
      "ROOT r = (f32[2,2], f32[2], f32[2]) batch-norm-training(x, s, o), epsilon=0, feature_index=1");
  expect_near(out.elements()[1], {2, 10});
  expect_near(out.elements()[2], {1, 0});
  EXPECT_NEAR(numbers(out.elements()[0])[0], 3, 1e-6);
  EXPECT_NEAR(numbers(out.elements()[0])[2], 7, 1e-6);
}

}  // namespace
}  // namespace tessera
