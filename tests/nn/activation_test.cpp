// SPDX-License-Identifier: Apache-2.0
// Activations equal their definitions. tests/frontend/tensor/function_cases.cpp has the functions on many meshes.
#include "tessera/nn/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "nn/layer_checks.h"

namespace tessera::nn {
namespace {

const Numbers kPoints{-800, -7.5, -3, -2.9, -1, -0.3, 0, 0.4, 1, 2.9, 3, 7.5, 800};

double clipped_line(double x) { return std::min(std::max(x / 6 + 0.5, 0.0), 1.0); }
double softplus_of(double x, double beta) {
  return (std::max(beta * x, 0.0) + std::log1p(std::exp(-std::fabs(beta * x)))) / beta;
}

TEST(ActivationModules, EqualTheirDefinitionsAlsoFarFromZero) {
  const FreshRank rank;
  const Tensor x = Tensor::from<double>({isize(kPoints)}, kPoints);
  const auto expect = [&](auto&& layer, const auto& definition) {
    Numbers expected;
    for (const double point : kPoints) expected.push_back(definition(point));
    const Numbers actual = values_of(layer(x));
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], 1e-13 * (1 + std::fabs(expected[i])))
          << layer.class_name() << " " << kPoints[i];
  };
  expect(LeakyReLU(), [](double v) { return v > 0 ? v : 0.01 * v; });
  expect(LeakyReLU(0.3), [](double v) { return v > 0 ? v : 0.3 * v; });
  expect(ELU(), [](double v) { return v > 0 ? v : std::expm1(v); });
  expect(ELU(0.7), [](double v) { return v > 0 ? v : 0.7 * std::expm1(v); });
  expect(SELU(), [](double v) { return 1.0507009873554805 * (v > 0 ? v : 1.6732632423543772 * std::expm1(v)); });
  expect(Softplus(), [](double v) { return softplus_of(v, 1); });
  expect(Softplus(2.5), [](double v) { return softplus_of(v, 2.5); });
  expect(Hardsigmoid(), clipped_line);
  expect(Hardswish(), [](double v) { return v * clipped_line(v); });
  expect(Mish(), [](double v) { return v * std::tanh(softplus_of(v, 1)); });
}

TEST(ActivationModules, SlopesAreFiniteFarFromZeroAndDefinedAtTheCorners) {
  const FreshRank rank;
  const auto slopes = [](auto&& layer, const Numbers& points) {
    Tensor x = Tensor::from<double>({isize(points)}, points);
    x.set_requires_grad();
    sum(layer(x)).backward();
    return values_of(x.grad());
  };
  EXPECT_EQ(slopes(LeakyReLU(0.5), {-800, 0, 800}), (Numbers{0.5, 0.5, 1}));
  EXPECT_EQ(slopes(ELU(2), {-800, 0, 800}), (Numbers{0, 2, 1}));
  EXPECT_EQ(slopes(Hardsigmoid(), {-800, -3, 3, 800}), (Numbers{0, 0, 0, 0}));
  expect_near(slopes(Hardsigmoid(), {-2.9, 2.9}), {1.0 / 6, 1.0 / 6});
  expect_near(slopes(Hardswish(), {-800, -2, 0, 2, 800}), {0, 0.5 - 4.0 / 6, 0.5, 0.5 + 4.0 / 6, 1});
  expect_near(slopes(Mish(), {-800, 0, 800}), {0, 0.6, 1});  // at 0: tanh(log 2) = 3/5
  expect_near(slopes(Softplus(), {-800, 0, 800}), {0, 0.5, 1});
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(values_of(Softplus()(Tensor::from<double>({2}, Numbers{-kInfinity, kInfinity}))), (Numbers{0, kInfinity}));
}

TEST(ActivationModules, SoftmaxIsAlongTheDim) {
  const FreshRank rank;
  const Tensor x = numbers({3, 4, 2});
  const Numbers in = values_of(x);
  Numbers probabilities(in.size()), logarithms(in.size());
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < 2; ++k) {
      double total = 0;
      for (std::size_t j = 0; j < 4; ++j) total += std::exp(in[(i * 4 + j) * 2 + k]);
      for (std::size_t j = 0; j < 4; ++j) {
        const std::size_t place = (i * 4 + j) * 2 + k;
        probabilities[place] = std::exp(in[place]) / total;
        logarithms[place] = in[place] - std::log(total);
      }
    }
  Softmax softmax(1);
  LogSoftmax log_softmax(-2);
  expect_near(values_of(softmax(x)), probabilities);
  expect_near(values_of(log_softmax(x)), logarithms);
  tessera::expect_gradients([&] { return weighted_sum(softmax(x)) + weighted_sum(log_softmax(x)); }, {x});
}

TEST(ActivationModules, ErrorsNameTheArgument) {
  const FreshRank rank;
  expect_error([] { Softplus(0); }, "Softplus: beta must be positive, got 0");
  EXPECT_NE(message_of([] { (void)Softmax(2)(numbers({3, 4})); }).find("softmax"), std::string::npos);
}

}  // namespace
}  // namespace tessera::nn
