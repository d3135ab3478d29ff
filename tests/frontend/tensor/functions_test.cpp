// SPDX-License-Identifier: Apache-2.0
// Values of functions of tensors, worked out by hand; errors.
#include "tessera/frontend/tensor/functions.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

using testing::counted;
using testing::error_of;
using testing::numbers;
using testing::Numbers;

TEST(Members, EqualTheFunctions) {
  const FreshRank rank;
  const Tensor x = counted({2, 3}) / 4.0 - 0.6;
  const Tensor mask = x > 0.0;
  const Tensor index = Tensor::from({0, 2, 1, 1}, {2, 2});
  const std::vector<std::pair<Tensor, Tensor>> pairs{
      {x.abs(), abs(x)},
      {x.ceil(), ceil(x)},
      {x.cos(), cos(x)},
      {x.erf(), erf(x)},
      {x.exp(), exp(x)},
      {x.expm1(), expm1(x)},
      {x.floor(), floor(x)},
      {x.abs().log(), log(abs(x))},
      {x.abs().log1p(), log1p(abs(x))},
      {x.reciprocal(), reciprocal(x)},
      {x.relu(), relu(x)},
      {x.round(), round(x)},
      {x.abs().rsqrt(), rsqrt(abs(x))},
      {x.sigmoid(), sigmoid(x)},
      {x.sign(), sign(x)},
      {x.sin(), sin(x)},
      {x.abs().sqrt(), sqrt(abs(x))},
      {x.square(), square(x)},
      {x.tanh(), tanh(x)},
      {x.isnan(), isnan(x)},
      {x.isfinite(), isfinite(x)},
      {x.abs().pow(1.5), pow(abs(x), 1.5)},
      {x.clamp({.min = 0}), clamp(x, {.min = 0})},
      {x.masked_fill(mask, -7), masked_fill(x, mask, -7)},
      {x.matmul(x.t()), matmul(x, x.t())},
      {x.softmax(-1), softmax(x, -1)},
      {x.log_softmax(0), log_softmax(x, 0)},
      {x.logsumexp(1), logsumexp(x, 1)},
      {x.gather(1, index), gather(x, 1, index)},
      {x.index_select(1, Tensor::from({2, 0}, {2})), index_select(x, 1, Tensor::from({2, 0}, {2}))},
      {x.scatter(1, index, ones({2, 2}, kF64)), scatter(x, 1, index, ones({2, 2}, kF64))},
      {x.scatter_add(1, index, ones({2, 2}, kF64)), scatter_add(x, 1, index, ones({2, 2}, kF64))},
      {x.flip({0, 1}), flip(x, std::vector<int>{0, 1})},
      {x.roll(1, 0), roll(x, 1, 0)},
      {x.tril(), tril(x)},
      {x.triu(1), triu(x, 1)},
      {x.split(2, 1)[1], split(x, 2, 1)[1]},
      {x.chunk(2)[0], chunk(x, 2)[0]},
      {x.sum({0, 1}), sum(x, {0, 1})},
      {x.mean(-1), mean(x, -1)},
      {x.var(1), var(x, 1)},
      {x.std(0), std(x, 0)}};
  for (std::size_t i = 0; i < pairs.size(); ++i) EXPECT_EQ(numbers(pairs[i].first), numbers(pairs[i].second)) << i;
}

// ---- creation, shapes ---------------------------------------------------------------------------------------------------

TEST(Creation, TheElementTypeIsF32UnlessItIsGiven) {
  const FreshRank rank;
  EXPECT_EQ(zeros({2, 3}).type().str(), "f32[2,3]");
  EXPECT_EQ(ones({2, 3}, kF64).type().str(), "f64[2,3]");
  EXPECT_EQ(full({}, 7, kS32).item(), 7);
  EXPECT_EQ(ones_like(zeros({5}, kBF16)).type().str(), "bf16[5]");
  EXPECT_EQ(numbers(full_like(zeros({2}), 3, kS64)), (Numbers{3, 3}));
  EXPECT_EQ(numbers(zeros_like(ones({2}))), (Numbers{0, 0}));
}

TEST(Creation, AnArrayGivesItsElementType) {
  const FreshRank rank;
  const std::array<float, 3> floats{1, 2, 3};
  EXPECT_EQ(Tensor::from(floats, {3}).type().str(), "f32[3]");
  const std::vector<std::int64_t> integers{1, 2, 3, 4};
  EXPECT_EQ(Tensor::from(std::span(integers).subspan(1, 2), {1, 2}).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(Tensor::from({1.5, 2.5}, {2}).type().str(), "f64[2]");
  EXPECT_EQ(Tensor::from({1, 2}, {2}).type().str(), "s32[2]");
  EXPECT_EQ(numbers(Tensor::from(std::vector<bool>{true, false, true}, {3})), (Numbers{1, 0, 1}));
  EXPECT_EQ(error_of([] { Tensor::from({1.0, 2.0}, {3}); }), "from: the shape [3] needs 3 values, got 2");
}

TEST(Creation, ArangeStopsBeforeItsEnd) {
  const FreshRank rank;
  EXPECT_EQ(arange(3).type().str(), "s32[3]");
  EXPECT_EQ(numbers(arange(2, 8, 3)), (Numbers{2, 5}));
  EXPECT_EQ(numbers(arange(5, -1, -2)), (Numbers{5, 3, 1}));
  EXPECT_EQ(arange(0.0, 1.0, 0.3).type().str(), "f32[4]");
  EXPECT_EQ(numbers(arange(1, 2, 0.25, kF64)), (Numbers{1, 1.25, 1.5, 1.75}));
  EXPECT_EQ(numbers(arange(3, 3)), Numbers{});
  EXPECT_EQ(error_of([] { arange(0, 1, 0); }),
            "arange: needs finite numbers and a step other than 0, got 0, 1 and step 0");
}

TEST(Creation, LinspaceHasBothEndsExactly) {
  const FreshRank rank;
  const Numbers line = numbers(linspace(0.1, 0.7, 7, kF64));
  EXPECT_EQ(line.front(), 0.1);
  EXPECT_EQ(line.back(), 0.7);
  EXPECT_NEAR(line[2], 0.3, 1e-15);
  EXPECT_EQ(numbers(linspace(2, 5, 1)), (Numbers{2}));
  EXPECT_EQ(numbers(linspace(2, 5, 0)), Numbers{});
}

TEST(Creation, EyeMayHaveMoreColumnsThanRows) {
  const FreshRank rank;
  EXPECT_EQ(numbers(eye(2, 3)), (Numbers{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(numbers(eye(2, {}, kS32)), (Numbers{1, 0, 0, 1}));
}

TEST(Shapes, AShapeHasSizesATextAndAnElementCount) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.str(), "[2, 3, 5]");
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape.numel(), 30);
  EXPECT_EQ(Shape().numel(), 1);
  EXPECT_EQ(shape, (Shape{2, 3, 5}));
  EXPECT_EQ(error_of([&] { (void)shape[3]; }), "the shape [2, 3, 5] has no dim 3");
  const FreshRank rank;
  EXPECT_EQ(zeros(shape).shape(), shape);
}

// ---- moving elements ----------------------------------------------------------------------------------------------------

TEST(Shaping, PartsHaveTheSizesOfPyTorch) {
  const FreshRank rank;
  const Tensor x = counted({7, 2});
  std::vector<Shape> shapes;
  for (const auto& part : split(x, 3)) shapes.push_back(part.shape());
  EXPECT_EQ(shapes, (std::vector<Shape>{{3, 2}, {3, 2}, {1, 2}}));
  EXPECT_EQ(numbers(split(x, {2, 5})[0]), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(chunk(x, 4).size(), 4U);
  EXPECT_EQ(chunk(x, 5).size(), 4U);  // parts of two rows
  EXPECT_EQ(chunk(zeros({0, 2}), 3).size(), 3U);
  EXPECT_EQ(error_of([&] { split(x, {2, 4}); }), "split: the sizes [2,4] do not add up to 7, the size of dim 0");
  EXPECT_EQ(error_of([&] { split(x, 0); }), "split: the size must be positive, got 0");
  EXPECT_EQ(error_of([&] { stack({x, x.t()}); }), "stack: all tensors must have one type, got f64[7,2] and f64[2,7]");
}

TEST(Shaping, SizesMayBeWrittenWithoutBraces) {
  const FreshRank rank;
  const Tensor x = counted({2, 3});
  EXPECT_EQ(x.view(3, 2).dims(), (Dims{3, 2}));
  EXPECT_EQ(x.reshape(3, -1).dims(), (Dims{3, 2}));
  EXPECT_EQ(x.view(-1).dims(), (Dims{6}));
  EXPECT_EQ(x.reshape(std::int64_t{6}).dims(), (Dims{6}));
  EXPECT_EQ(x.view({6}).dims(), (Dims{6}));
  EXPECT_EQ(numbers(x.permute(1, 0)), numbers(x.t()));
  EXPECT_EQ(x.unsqueeze(0).expand(4, -1, -1).dims(), (Dims{4, 2, 3}));
  const std::string error = error_of([&] { (void)x.view(4, -1); });
  EXPECT_NE(error.find("6 elements do not divide by 4"), std::string::npos) << error;
}

TEST(Shaping, RolledElementsEnterAtTheOtherEnd) {
  const FreshRank rank;
  EXPECT_EQ(numbers(roll(arange(5), 2, 0)), (Numbers{3, 4, 0, 1, 2}));
  EXPECT_EQ(numbers(roll(arange(5), -6, 0)), (Numbers{1, 2, 3, 4, 0}));
}

TEST(Shaping, TrianglesCountDiagonalsFromTheMainOne) {
  const FreshRank rank;
  EXPECT_EQ(numbers(tril(ones({3, 3}), -1)), (Numbers{0, 0, 0, 1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(numbers(triu(ones({2, 3}), 1)), (Numbers{0, 1, 1, 0, 0, 1}));
}

TEST(Shaping, TilesMayAddDims) {
  const FreshRank rank;
  EXPECT_EQ(numbers(tile(arange(2), {3})), (Numbers{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(tile(zeros({2, 3}), {4, 1, 2}).shape(), (Shape{4, 2, 6}));
  EXPECT_EQ(expand(zeros({1, 3}), {5, -1, 3}).shape(), (Shape{5, 1, 3}));
}

TEST(Subscript, RangesAreThoseOfNumPy) {
  const FreshRank rank;
  const Tensor x = counted({5});
  const auto at_range = [&](const Range& range) { return numbers(x[range]); };
  EXPECT_EQ(at_range(Range(1, 3)), (Numbers{1, 2}));
  EXPECT_EQ(at_range(Range(-2, {})), (Numbers{3, 4}));
  EXPECT_EQ(at_range(Range({}, -2)), (Numbers{0, 1, 2}));
  EXPECT_EQ(at_range(Range({}, 100)), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(at_range(Range({}, {}, 2)), (Numbers{0, 2, 4}));
  EXPECT_EQ(at_range(Range({}, {}, -2)), (Numbers{4, 2, 0}));
  EXPECT_EQ(at_range(Range(3, 0, -1)), (Numbers{3, 2, 1}));
  EXPECT_EQ(at_range(Range(-2, -5, -2)), (Numbers{3, 1}));
  EXPECT_EQ(at_range(Range(3, 1)), Numbers{});
  EXPECT_EQ(at_range(Range(9, 20)), Numbers{});
}

TEST(Subscript, EntriesAreNumbersRangesAndNewDims) {
  const FreshRank rank;
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(x[1].shape(), (Shape{3, 4}));
  EXPECT_EQ(numbers(x[{1, -1, 0}]), (Numbers{20}));
  EXPECT_EQ((x[{All, 1}].shape()), (Shape{2, 4}));
  EXPECT_EQ((x[{Ellipsis, 1}].shape()), (Shape{2, 3}));
  EXPECT_EQ((x[{NewAxis, 0, Ellipsis, NewAxis}].shape()), (Shape{1, 3, 4, 1}));
  EXPECT_EQ(numbers(x[{0, Range(1, {}), 2}]), (Numbers{6, 10}));
  EXPECT_EQ(error_of([&] { (void)x[2]; }), "operator[]: index 2 is outside dim 0 of f64[2,3,4]");
  EXPECT_EQ(error_of([&] { (void)x[{0, 0, 0, 0}]; }), "operator[]: 4 entries for the 3 dims of f64[2,3,4]");
  EXPECT_EQ(error_of([&] { (void)x[{Ellipsis, Ellipsis}]; }), "operator[]: Ellipsis may occur once, got it 2 times");
}

// ---- elementwise --------------------------------------------------------------------------------------------------------

TEST(Pointwise, CompoundAssignmentGivesTheHandleANewValue) {
  const FreshRank rank;
  Tensor x = counted({3});
  const Tensor before = x;
  x += 1.0;
  x *= x;
  EXPECT_EQ(numbers(x), (Numbers{1, 4, 9}));
  EXPECT_EQ(numbers(before), (Numbers{0, 1, 2}));
  Tensor weight = Tensor::from({1.0, 2.0}, {2});
  weight.set_requires_grad();
  EXPECT_EQ(error_of([&] { weight -= 1.0; }),
            "-=: x -= y gives the handle x a new value and would not change this variable; write x.assign(...) to "
            "change the variable");
}

TEST(Pointwise, SoftplusDoesNotOverflow) {
  const FreshRank rank;
  const Numbers y = numbers(softplus(Tensor::from({-800.0, 0.0, 800.0}, {3})));
  EXPECT_EQ(y[0], 0);
  EXPECT_NEAR(y[1], std::log(2), 1e-15);
  EXPECT_EQ(y[2], 800);
}

TEST(Pointwise, EqualOperandsOfMaximumShareTheGradient) {
  const FreshRank rank;
  Tensor x = Tensor::from({1.0, 2.0, 3.0}, {3});
  Tensor y = Tensor::from({1.0, 3.0, 2.0}, {3});
  x.set_requires_grad();
  y.set_requires_grad();
  sum(maximum(x, y)).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{0.5, 0, 1}));
  EXPECT_EQ(numbers(y.grad()), (Numbers{0.5, 1, 0}));
  Tensor z = Tensor::from({-1.0, 0.0, 1.0}, {3});
  z.set_requires_grad();
  sum(relu(z)).backward();
  EXPECT_EQ(numbers(z.grad()), (Numbers{0, 0, 1}));
}

TEST(Pointwise, TheGradientOfClampPassesAtItsBounds) {
  const FreshRank rank;
  Tensor x = Tensor::from({-2.0, -1.0, 0.0, 1.0, 2.0}, {5});
  x.set_requires_grad();
  const Tensor y = clamp(x, -1, 1);
  sum(y).backward();
  EXPECT_EQ(numbers(y), (Numbers{-1, -1, 0, 1, 1}));
  EXPECT_EQ(numbers(x.grad()), (Numbers{0, 1, 1, 1, 0}));
  EXPECT_EQ(numbers(clamp(arange(5), {.min = 1, .max = 3})), (Numbers{1, 1, 2, 3, 3}));
  EXPECT_EQ(error_of([&] { clamp(x, 2, 1); }), "clamp: the lower bound 2 is above the upper bound 1");
}

TEST(Pointwise, LogicalFunctionsTakeNumbers) {
  const FreshRank rank;
  const Tensor x = Tensor::from({0.0, 0.0, 2.0, 3.0}, {4});
  const Tensor y = Tensor::from({0, 5, 0, -1}, {4});
  EXPECT_EQ(numbers(logical_and(x, y)), (Numbers{0, 0, 0, 1}));
  EXPECT_EQ(numbers(logical_or(x, y)), (Numbers{0, 1, 1, 1}));
  EXPECT_EQ(numbers(logical_xor(x, y)), (Numbers{0, 1, 1, 0}));
  EXPECT_EQ(numbers(logical_not(y)), (Numbers{1, 0, 1, 0}));
  EXPECT_EQ(numbers(round(Tensor::from({0.5, 1.5, -0.5, 2.6}, {4}))), (Numbers{0, 2, 0, 3}));
}

// ---- reductions ---------------------------------------------------------------------------------------------------------

TEST(Reductions, TheVarianceIsUnbiasedUnlessTheCorrectionIsZero) {
  const FreshRank rank;
  const Tensor x = Tensor::from({1.0, 2.0, 3.0, 6.0}, {4});
  EXPECT_DOUBLE_EQ(var(x).item(), 14.0 / 3);
  EXPECT_DOUBLE_EQ(var(x, {.correction = 0}).item(), 3.5);
  EXPECT_DOUBLE_EQ(x.std({.correction = 0}).item(), std::sqrt(3.5));
  EXPECT_TRUE(std::isnan(var(x[Range(0, 1)]).item()));
  EXPECT_EQ(error_of([] { var(arange(3)); }),
            "var: the variance of s32[3] would be truncated to an integer; convert it with .to() first");
}

TEST(Reductions, EqualMaximaShareTheGradient) {
  const FreshRank rank;
  Tensor x = Tensor::from({3.0, 1.0, 3.0}, {3});
  x.set_requires_grad();
  x.max().backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{0.5, 0, 0.5}));
}

TEST(Reductions, ArgmaxGivesTheFirstPositionAndCountsNaN) {
  const FreshRank rank;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = Tensor::from({1.0, 5.0, 5.0, 7.0, nan, nan}, {2, 3});
  EXPECT_EQ(numbers(argmax(x, 1)), (Numbers{1, 1}));
  EXPECT_EQ(argmax(x).item(), 4);
  EXPECT_EQ(numbers(argmin(x, {.dim = 1, .keep_dims = true})), (Numbers{0, 1}));
  EXPECT_EQ(argmin(x, ArgOptions{.dim = 1, .keep_dims = true}).shape(), (Shape{2, 1}));
}

TEST(Reductions, NormsHaveTheOrderOfPyTorch) {
  const FreshRank rank;
  const Tensor x = Tensor::from({3.0, 0.0, -4.0}, {3});
  EXPECT_EQ(norm(x).item(), 5);
  EXPECT_EQ(norm(x, {.p = 1}).item(), 7);
  EXPECT_EQ(norm(x, {.p = 0}).item(), 2);
  EXPECT_EQ(norm(x, {.p = HUGE_VAL}).item(), 4);
  EXPECT_EQ(norm(x, {.p = -HUGE_VAL}).item(), 0);
  EXPECT_NEAR(norm(x, {.p = 3}).item(), std::cbrt(27 + 64), 1e-14);
}

TEST(Reductions, SumsOfTruthValuesCount) {
  const FreshRank rank;
  const Tensor x = Tensor::from({1.0, 0.0, 2.0}, {3});
  EXPECT_EQ(sum(x > 0.0).item(), 2);
  EXPECT_EQ(any(x).item(), 1);
  EXPECT_EQ(all(x).item(), 0);
  EXPECT_EQ(all(zeros({0})).item(), 1);
  EXPECT_EQ(any(zeros({0})).item(), 0);
}

TEST(Reductions, CumulativeFunctionsKeepTheElementType) {
  const FreshRank rank;
  EXPECT_EQ(numbers(cumsum(arange(1, 6), 0)), (Numbers{1, 3, 6, 10, 15}));
  EXPECT_EQ(numbers(cumprod(arange(1, 6), 0)), (Numbers{1, 2, 6, 24, 120}));
  EXPECT_EQ(cumsum(ones({300}, kBF16), 0).dtype(), kBF16);
  EXPECT_EQ(numbers(cumsum(ones({300}, kBF16), 0)).back(), 300);  // 299 + 1 = 300 only in f32
}

}  // namespace
}  // namespace tessera
