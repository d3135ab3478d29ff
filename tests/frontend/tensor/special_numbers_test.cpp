// SPDX-License-Identifier: Apache-2.0
// Infinities, NaN, zeros, sums beyond f16, and dims without elements.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/control/transforms.h"
#include "tessera/frontend/tensor/bounded.h"
#include "tessera/frontend/tensor/convolutions.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::numbers;
using testing::Numbers;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(SpecialNumbers, LogsumexpTakesInfinities) {
  const FreshRank rank;
  Tensor x = Tensor::from({-kInfinity, -kInfinity, 1.0, kInfinity, 0.0, std::log(3.0)}, {3, 2});
  x.set_requires_grad();
  const Tensor y = logsumexp(x, 1);
  sum(y).backward();
  const Numbers values = numbers(y);
  EXPECT_EQ(values[0], -kInfinity);
  EXPECT_EQ(values[1], kInfinity);
  EXPECT_NEAR(values[2], std::log(4.0), 1e-15);
  const Numbers d = numbers(x.grad());
  EXPECT_EQ(d[0], 0);
  EXPECT_EQ(d[1], 0);
  EXPECT_EQ(d[2], 0);
  EXPECT_NEAR(d[4], 0.25, 1e-15);
  EXPECT_NEAR(d[5], 0.75, 1e-15);
  EXPECT_EQ(logsumexp(Tensor::from({1000.0}, {1}), 0).item(), 1000);
}

TEST(SpecialNumbers, EveryNaNIsLargest) {
  const FreshRank rank;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = Tensor::from({2.0, std::copysign(nan, -1.0), 1.0, nan}, {4});
  EXPECT_EQ(numbers(argsort(x)), (Numbers{2, 0, 1, 3}));
  EXPECT_EQ(numbers(argsort(x, {.descending = true})), (Numbers{1, 3, 0, 2}));
  const Numbers sorted = numbers(sort(x).values);
  EXPECT_EQ(sorted[0], 1);
  EXPECT_EQ(sorted[1], 2);
  EXPECT_TRUE(std::isnan(sorted[2]) && std::isnan(sorted[3]));
  EXPECT_EQ(numbers(topk(x, 3).indices), (Numbers{1, 3, 0}));
  EXPECT_EQ(numbers(topk(x, 2, {.largest = false}).indices), (Numbers{2, 0}));
  const Numbers different = numbers(unique(x, {.size = 4}).values);
  EXPECT_EQ(different[0], 1);
  EXPECT_EQ(different[1], 2);
  EXPECT_TRUE(std::isnan(different[2]));
}

TEST(SpecialNumbers, AMeanOfF16MayHaveALargerSum) {
  const FreshRank rank;
  const Tensor x = full({1, 1, 112, 112}, 10, kF16);  // the sum is 125440
  EXPECT_EQ(mean(x).dtype(), kF16);
  EXPECT_EQ(mean(x).item(), 10);
  EXPECT_EQ(numbers(mean(x, {.dims = {2, 3}})), Numbers{10});
  EXPECT_EQ(numbers(adaptive_avg_pool2d(x)), Numbers{10});
  EXPECT_EQ(numbers(adaptive_avg_pool2d(x, {1, 2})), (Numbers{10, 10}));
  EXPECT_EQ(numbers(avg_pool2d(x, {.kernel_size = {112}})), Numbers{10});
}

TEST(SpecialNumbers, AMaximumNeedsElements) {
  const FreshRank rank;
  const Tensor x = zeros({0, 2});
  EXPECT_EQ(error_of([&] { (void)x.max(0); }), "max: dim 0 of f32[0,2] has no elements");
  EXPECT_EQ(error_of([&] { (void)x.min(); }), "min: dim 0 of f32[0,2] has no elements");
  EXPECT_EQ(error_of([&] { (void)norm(x, {.p = kInfinity}); }), "norm: dim 0 of f32[0,2] has no elements");
  EXPECT_EQ(x.max(1).shape(), (Shape{0}));
  EXPECT_EQ(numbers(x.prod(0)), (Numbers{1, 1}));
  EXPECT_EQ(norm(x).item(), 0);
}

TEST(SpecialNumbers, AScalarHasTheDims0AndMinus1) {
  const FreshRank rank;
  const Tensor x = Tensor::from<double>({}, {3.0});
  for (const int dim : {0, -1}) {
    const std::vector<Tensor> all_3{sum(x, dim),
                                    mean(x, dim),
                                    prod(x, dim),
                                    max(x, dim),
                                    sum(x, {.dims = {dim}, .keep_dims = true}),
                                    norm(x, {.dims = {dim}}),
                                    logsumexp(x, dim),
                                    cumsum(x, dim),
                                    cumprod(x, dim),
                                    logcumsumexp(x, dim),
                                    cummax(x, dim).values,
                                    sort(x, {.dim = dim}).values,
                                    topk(x, 1, {.dim = dim}).values,
                                    median(x, {.dim = dim, .keep_dims = true}).values,
                                    quantile(x, 0.5, {.dim = dim, .keep_dims = true}),
                                    flip(x, dim),
                                    squeeze(x, dim),
                                    transpose(x, dim, 0),
                                    movedim(x, 0, dim)};
    const std::vector<Tensor> all_0{log_softmax(x, dim), argmax(x, dim), argsort(x, {.dim = dim}),
                                    cummin(x, dim).indices, topk(x, 1, {.dim = dim}).indices};
    const std::vector<Tensor> all_1{softmax(x, dim), softmin(x, dim), normalize(x, {.dim = dim}),
                                    count_nonzero(x, dim)};
    const auto expect = [&](const std::vector<Tensor>& results, double value) {
      for (std::size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].ndim(), 0) << value << " " << i;
        EXPECT_EQ(results[i].item(), value) << i;
      }
    };
    expect(all_3, 3);
    expect(all_0, 0);
    expect(all_1, 1);
    EXPECT_EQ(unsqueeze(x, dim).shape(), (Shape{1}));
    EXPECT_TRUE(std::isnan(var(x, dim).item()));
  }
  EXPECT_EQ(grad([](const Tensor& v) { return cumprod(v, 0) * sum(v, -1); })(x).item(), 6);
  EXPECT_EQ(error_of([&] { (void)sum(x, 1); }), "sum: f64[] has no dim 1");
  EXPECT_EQ(error_of([&] { (void)softmax(x, -2); }), "softmax: f64[] has no dim -2");
}

TEST(SpecialNumbers, TruthValuesCountAsNumbers) {
  const FreshRank rank;
  const Tensor mask = Tensor::from({1.0, 0.0, 2.0}, {3}) > 0.0;
  EXPECT_EQ(numbers(cumsum(mask, 0)), (Numbers{1, 1, 2}));
  EXPECT_EQ(numbers(cumprod(mask, 0)), (Numbers{1, 0, 0}));
  EXPECT_EQ(prod(mask).type().str(), "s32[]");
  EXPECT_EQ(prod(mask).item(), 0);
}

TEST(SpecialNumbers, IntegersHaveNoNegativePowers) {
  const FreshRank rank;
  EXPECT_EQ(numbers(pow(arange(1, 4), 2)), (Numbers{1, 4, 9}));
  EXPECT_EQ(error_of([] { (void)pow(arange(3), -1); }),
            "power: a power -1 of s32[3] is a fraction; convert the integers with .to() first");
}

TEST(SpecialNumbers, HardActivationsKeepNaN) {
  const FreshRank rank;
  const Tensor x = Tensor::from({std::numeric_limits<double>::quiet_NaN(), -3.0, 3.0, -kInfinity}, {4});
  const Numbers y = numbers(hardsigmoid(x));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ((Numbers{y.begin() + 1, y.end()}), (Numbers{0, 1, 0}));
  for (const auto& f : {hardswish, relu6, mish}) EXPECT_TRUE(std::isnan(numbers(f(x))[0]));
}

TEST(SpecialNumbers, SecondDerivativesOfProductsAreExactAtZeros) {
  const FreshRank rank;
  const auto d = grad([](const Tensor& x) { return x.prod(); });
  const auto row = grad([&](const Tensor& x) { return d(x).reshape(-1).select(0, 0); });
  EXPECT_EQ(numbers(d(Tensor::from({2.0, 3.0, 4.0}, {3}))), (Numbers{12, 8, 6}));
  EXPECT_EQ(numbers(row(Tensor::from({0.0, 5.0, 0.0}, {3}))), (Numbers{0, 0, 5}));
  EXPECT_EQ(numbers(row(Tensor::from({0.0, 3.0, 0.0, 2.0}, {2, 2}))), (Numbers{0, 0, 6, 0}));
  const auto lines = grad([](const Tensor& x) { return sum(x.prod(1)); });
  EXPECT_EQ(numbers(lines(Tensor::from({0.0, 3.0, 0.0, 2.0, 2.0, 5.0}, {2, 3}))), (Numbers{0, 0, 0, 10, 10, 4}));
}

TEST(SpecialNumbers, ThePowerZeroHasNoSlope) {
  const FreshRank rank;
  const auto one = [](const Tensor& x) { return pow(x, 0.0); };
  EXPECT_EQ(grad(one)(Tensor::from<double>({}, {0.0})).item(), 0);
  EXPECT_EQ(grad(grad(one))(Tensor::from<double>({}, {0.0})).item(), 0);
  EXPECT_EQ(grad(grad([](const Tensor& x) { return pow(x, 2.0); }))(Tensor::from<double>({}, {0.0})).item(), 2);
}

TEST(SpecialNumbers, AKernelMustFitIntoItsInput) {
  const FreshRank rank;
  const Tensor line = zeros({1, 4, 3});
  const Tensor image = zeros({1, 4, 8, 3});
  EXPECT_EQ(error_of([&] {
              (void)conv1d(line, zeros({4, 4, 9}));
            }),
            "conv1d: a kernel of 9 does not fit into dim 2 of f32[1,4,3], which has 3 elements with padding");
  EXPECT_EQ(error_of([&] {
              (void)conv2d(image, zeros({4, 4, 3, 3}), {.dilation = {1, 2}});
            }),
            "conv2d: a kernel of 5 does not fit into dim 3 of f32[1,4,8,3], which has 3 elements with padding");
  EXPECT_EQ(conv1d(line, zeros({4, 4, 9}), {.padding = 3}).shape(), (Shape{1, 4, 1}));
  EXPECT_EQ(error_of([&] { (void)max_pool1d(line, {.kernel_size = 4}); }),
            "max_pool1d: a kernel of 4 does not fit into 3");
}

}  // namespace
}  // namespace tessera
