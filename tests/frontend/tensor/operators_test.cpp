// SPDX-License-Identifier: Apache-2.0
// Operators of tensors: quotients of integers, remainders, bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::numbers;
using testing::Numbers;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(Operators, QuotientsOfIntegersAreF32) {
  const FreshRank rank;
  const Tensor x = Tensor::from({-7, 0, 7}, {3}), y = Tensor::from({2, 0, 4}, {3});
  const Numbers got = numbers(x / y);
  EXPECT_EQ((x / y).dtype(), kF32);
  EXPECT_EQ(got[0], -3.5);
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_EQ(got[2], 1.75);
  EXPECT_EQ(numbers(x / 2), (Numbers{-3.5, 0, 3.5}));
  EXPECT_EQ(numbers(x / 0.5), (Numbers{-14, 0, 14}));
  EXPECT_EQ(numbers(Tensor::from(std::vector<std::uint8_t>{0, 7, 255}, {3}) / -500),
            (Numbers{0, static_cast<float>(-0.014), static_cast<float>(-0.51)}));
  EXPECT_EQ(numbers(1.5 / y[Range({}, {}, 2)]), (Numbers{0.75, 0.375}));
  EXPECT_EQ(numbers(x.to(kS64) / y.to(kS64))[2], 1.75);
  EXPECT_EQ(numbers(div(x, 2)), (Numbers{-3.5, 0, 3.5}));
  EXPECT_EQ(numbers(reciprocal(y[Range(2, 3)])), Numbers{0.25});
  const Numbers by_zero = numbers(x / 0);
  EXPECT_EQ(by_zero[0], -kInfinite);
  EXPECT_TRUE(std::isnan(by_zero[1]));
  EXPECT_EQ(by_zero[2], kInfinite);
  EXPECT_NE(error_of([&] { (void)(x / y.to(kS64)); }), "no error");
  EXPECT_NE(error_of([&] { (void)(x / y.to(kF32)); }), "no error");
}

TEST(Operators, IntegersCannotBecomeTheirQuotientInPlace) {
  const FreshRank rank;
  Tensor x = Tensor::from({-7, 7}, {2});
  EXPECT_EQ(error_of([&] { x /= 2; }),
            "/=: the quotient of integers is f32, but x is s32[2]; write x = x / y, or x = floor_divide(x, y)");
  EXPECT_EQ(numbers(x), (Numbers{-7, 7}));
  Tensor halves = x.to(kF64);
  halves /= 2;
  EXPECT_EQ(numbers(halves), (Numbers{-3.5, 3.5}));
}

TEST(Operators, DivRoundsTowardsZeroOrDown) {
  const FreshRank rank;
  using enum RoundingMode;
  const Tensor x = Tensor::from({-7, -6, 0, 7}, {4});
  EXPECT_EQ(numbers(div(x, 2, kTrunc)), (Numbers{-3, -3, 0, 3}));
  EXPECT_EQ(numbers(x.div(2, kFloor)), (Numbers{-4, -3, 0, 3}));
  EXPECT_EQ(div(x, x + 9, kTrunc).dtype(), kS32);
  EXPECT_EQ(x.div(x + 9, kFloor).dtype(), kS32);
  EXPECT_EQ(numbers(x.div(2)), (Numbers{-3.5, -3, 0, 3.5}));
  const Tensor y = Tensor::from({-3.5, 3.5, 5.0}, {3});
  EXPECT_EQ(numbers(div(y, 2, kTrunc)), (Numbers{-1, 1, 2}));
  EXPECT_EQ(numbers(div(y, 2, kFloor)), (Numbers{-2, 1, 2}));
  EXPECT_EQ(numbers(div(y, 0, kTrunc)), (Numbers{-kInfinite, kInfinite, kInfinite}));
  Tensor v = Tensor::from({5.0, -5.0}, {2});
  v.set_requires_grad();
  sum(div(v, 2, kTrunc) + v * 3.0).backward();
  EXPECT_EQ(numbers(v.grad()), (Numbers{3, 3}));
}

TEST(Operators, OfBitsAndOfTruthValues) {
  const FreshRank rank;
  const Tensor x = Tensor::from({12, -1, 5}, {3}), y = Tensor::from({10, 7, 0}, {3});
  EXPECT_EQ(numbers(x & y), (Numbers{8, 7, 0}));
  EXPECT_EQ(numbers(x | y), (Numbers{14, -1, 5}));
  EXPECT_EQ(numbers(x ^ y), (Numbers{6, -8, 5}));
  EXPECT_EQ(numbers(~x), (Numbers{-13, 0, -6}));
  EXPECT_EQ(numbers(x & 1), (Numbers{0, 1, 1}));
  EXPECT_EQ(numbers(1 | y), (Numbers{11, 7, 1}));
  EXPECT_EQ(numbers(x % 7), (Numbers{5, 6, 5}));
  EXPECT_EQ(numbers(7 % x), (Numbers{7, 0, 2}));
  EXPECT_EQ(numbers(+x), numbers(x));
  const Tensor p = x > 0, q = y > 0;
  EXPECT_EQ(numbers(p & q), (Numbers{1, 0, 0}));
  EXPECT_EQ(numbers(p | q), (Numbers{1, 1, 1}));
  EXPECT_EQ(numbers(p ^ q), (Numbers{0, 1, 1}));
  EXPECT_EQ(numbers(~p), (Numbers{0, 1, 0}));
  Tensor z = x;
  z %= 7;
  z &= 6;
  z |= 8;
  z ^= 1;
  EXPECT_EQ(numbers(z), (Numbers{13, 15, 13}));
  EXPECT_NE(error_of([] { (void)(zeros({2}) & ones({2})); }), "no error");
  EXPECT_NE(error_of([] { (void)~zeros({2}); }), "no error");
}

}  // namespace
}  // namespace tessera
