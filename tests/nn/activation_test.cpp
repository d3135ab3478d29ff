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

// The values of ACT2FN in transformers 5.24.
TEST(NamedActivations, AreThoseOfHuggingFace) {
  const FreshRank rank;
  const Numbers gelu_values{0, -0.00404969409489031, -0.158655253931457, -0.114626573343314,
                            0, 0.26216869664413,     0.841344746068543,  2.99595030590511,
                            12};
  Numbers clipped = gelu_values;
  clipped.back() = 10;
  const Numbers tanh_form{0, -0.00363739208177299, -0.158808009391723, -0.114629076457241,
                          0, 0.262161169427356,    0.841191990608277,  2.99636260791823,
                          12};
  const Numbers silu_values{-7.37300952265766e-05, -0.1422776195327,  -0.268941421369995, -0.127667244956502, 0,
                            0.239475064044981,     0.731058578630005, 2.8577223804673,    11.9999262699048};
  const std::vector<std::pair<const char*, Numbers>> expected{
      {"gelu", gelu_values},
      {"gelu_10", clipped},
      {"gelu_accurate", tanh_form},
      {"gelu_fast",
       {0, -0.00363739208186059, -0.158808009392523, -0.114629076457363, 0, 0.262161169427148, 0.841191990607477,
        2.99636260791814, 12}},
      {"gelu_new", tanh_form},
      {"gelu_python", gelu_values},
      {"gelu_python_tanh", tanh_form},
      {"gelu_pytorch_tanh", tanh_form},
      {"hardswish", {0, 0, -1.0 / 3, -0.135, 0, 0.4 * 3.4 / 6, 2.0 / 3, 3, 12}},
      {"laplace",
       {0, 0, 7.17372605762989e-10, 0.000178423355978452, 0.00609445961793559, 0.138150784141612, 0.85042964928457, 1,
        1}},
      {"leaky_relu", {-0.12, -0.03, -0.01, -0.003, 0, 0.4, 1, 3, 12}},
      {"linear", {-12, -3, -1, -0.3, 0, 0.4, 1, 3, 12}},
      {"mish",
       {-7.37303217318659e-05, -0.145647461275625, -0.303401461374109, -0.151133177138335, 0, 0.289030534072363,
        0.86509838826731, 2.98653500496796, 11.999999999094}},
      {"quick_gelu",
       {-1.61864178358476e-08, -0.018071309707786, -0.154204234067179, -0.112515864618408, 0, 0.265566890288166,
        0.845795765932821, 2.98192869029221, 11.9999999838136}},
      {"relu", {0, 0, 0, 0, 0, 0.4, 1, 3, 12}},
      {"relu2", {0, 0, 0, 0, 0, 0.16, 1, 9, 144}},
      {"relu6", {0, 0, 0, 0, 0, 0.4, 1, 3, 6}},
      {"sigmoid",
       {6.14417460221472e-06, 0.0474258731775668, 0.268941421369995, 0.425557483188341, 0.5, 0.598687660112452,
        0.731058578630005, 0.952574126822433, 0.999993855825398}},
      {"silu", silu_values},
      {"sqrtsoftplus",
       {0.00247874836918409, 0.220425387770425, 0.559697853773108, 0.744550363957017, 0.832554611157698,
        0.955518316098625, 1.14597630320972, 1.74602043274807, 3.46410250197558}},
      {"swish", silu_values},
      {"tanh",
       {-0.999999999924497, -0.99505475368673, -0.761594155955765, -0.291312612451591, 0, 0.379948962255225,
        0.761594155955765, 0.99505475368673, 0.999999999924497}}};
  const Tensor x = Tensor::from<double>({9}, Numbers{-12, -3, -1, -0.3, 0, 0.4, 1, 3, 12});
  std::vector<std::string> names;
  for (const auto& [name, values] : expected) {
    SCOPED_TRACE(name);
    expect_near(values_of(activation(x, name)), values, 1e-9);
    names.emplace_back(name);
  }
  EXPECT_EQ(names, activation_names());
}

TEST(NamedActivations, TheRootOfSoftplusHasFiniteSlopes) {
  const FreshRank rank;
  Tensor x = Tensor::from<double>({4}, Numbers{-2000, -60, 0, 2000});
  x.set_requires_grad();
  sum(activation(x, "sqrtsoftplus")).backward();
  const double root = std::sqrt(std::log(2.0));
  expect_near(values_of(x.grad()), {0, std::exp(-30.0) / 2, 0.25 / root, 0.5 / std::sqrt(2000.0)}, 1e-14);
}

TEST(ActivationModules, ErrorsNameTheArgument) {
  const FreshRank rank;
  expect_error([] { Softplus(0); }, "Softplus: beta must be positive, got 0");
  EXPECT_NE(message_of([] { (void)Softmax(2)(numbers({3, 4})); }).find("softmax"), std::string::npos);
}

}  // namespace
}  // namespace tessera::nn
