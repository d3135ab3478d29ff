// SPDX-License-Identifier: Apache-2.0
// Compares Adam, Adafactor, Lion, Muon, groups and averages with steps computed by hand.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "frontend/on_ranks.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tensor/stack.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/optim/adafactor.h"
#include "tessera/optim/combined_optimizer.h"
#include "tessera/optim/ema.h"
#include "tessera/optim/factory.h"
#include "tessera/optim/lion.h"
#include "tessera/optim/muon.h"

namespace tessera::optim {
namespace {

Tensor weight(const Dims& dims, const std::vector<double>& values, const std::string& name = "w") {
  Tensor out = Tensor::from<double>(dims, values);
  out.set_name(name);
  return out.set_requires_grad();
}

// One step in which the gradient is `gradient`.
void take_step(const Tensor& parameter, const std::vector<double>& gradient, Optimizer& optimizer) {
  optimizer.zero_grad();
  sum(parameter * Tensor::from<double>(parameter.dims(), gradient)).backward();
  optimizer.step();
  mark_step();
}

void expect_near(const std::vector<double>& values, const std::vector<double>& expected, double tolerance = 1e-13) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << "element " << i;
}

double rms(const std::vector<double>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / static_cast<double>(x.size()));
}

TEST(AdamTest, WeightDecayIsPartOfTheGradient) {
  const FreshRank rank;
  const Tensor p = weight({1}, {2});
  Adam optimizer(std::vector<Tensor>{p}, {.learning_rate = 0.1, .epsilon = 0, .weight_decay = 0.5});
  take_step(p, {3}, optimizer);  // the first step of Adam is lr * sign(3 + 0.5 * 2)
  EXPECT_NEAR(p.item(), 1.9, 1e-14);
}

TEST(AdamTest, AmsgradKeepsTheLargestSecondMoment) {
  const FreshRank rank;
  const Tensor p = weight({1}, {1});
  Adam optimizer(std::vector<Tensor>{p},
                 {.learning_rate = 0.1, .beta1 = 0, .beta2 = 0.5, .epsilon = 0, .amsgrad = true});
  double expected = 1, v = 0, largest = 0;
  for (int t = 1; t <= 4; ++t) {
    const double g = t == 1 ? 4 : 0.25;
    v = 0.5 * v + 0.5 * g * g;
    largest = std::max(largest, v);
    expected -= 0.1 * g / std::sqrt(largest / (1 - std::pow(0.5, t)));
    take_step(p, {g}, optimizer);
    EXPECT_NEAR(p.item(), expected, 1e-14);
  }
}

// Two steps of Adafactor on a matrix of 2 x 3, as in the paper.
TEST(AdafactorTest, StepsOnAMatrixEqualThoseComputedByHand) {
  const FreshRank rank;
  std::vector<double> expected{1, -2, 3, 0.5, 1.5, -1};
  const Tensor p = weight({2, 3}, expected);
  Adafactor optimizer({p}, {.weight_decay = 0.1, .warmup_init = true});
  std::array<double, 2> row{};
  std::array<double, 3> column{};
  for (int t = 1; t <= 2; ++t) {
    const std::vector<double> g{0.1 * t, 2, -1, 0.3, -0.2 * t, 5};
    const double decay = 1 - std::pow(t, -0.8);
    for (std::size_t i = 0; i < 2; ++i) {
      const double mean = (g[3 * i] * g[3 * i] + g[3 * i + 1] * g[3 * i + 1] + g[3 * i + 2] * g[3 * i + 2]) / 3 + 1e-30;
      row[i] = decay * row[i] + (1 - decay) * mean;
    }
    for (std::size_t j = 0; j < 3; ++j)
      column[j] = decay * column[j] + (1 - decay) * ((g[j] * g[j] + g[3 + j] * g[3 + j]) / 2 + 1e-30);
    std::vector<double> change(6);
    for (std::size_t i = 0; i < 6; ++i)
      change[i] = g[i] / std::sqrt(row[i / 3] / ((row[0] + row[1]) / 2)) / std::sqrt(column[i % 3]);
    const double rate = std::max(1e-3, rms(expected)) * std::min(1e-6 * t, 1 / std::sqrt(t));
    const double clip = std::max(1.0, rms(change));
    for (std::size_t i = 0; i < 6; ++i) expected[i] = expected[i] * (1 - 0.1 * rate) - rate * change[i] / clip;
    take_step(p, g, optimizer);
    expect_near(p.to_vector<double>(), expected, 1e-15);
  }
  EXPECT_EQ(optimizer.named_state().at(0).tensor.dims(), (Dims{2}));
  EXPECT_EQ(optimizer.named_state().at(1).tensor.dims(), (Dims{3}));
}

TEST(AdafactorTest, VectorsHaveASecondMomentForEachElement) {
  const FreshRank rank;
  const Tensor p = weight({3}, {1, 2, 3});
  Adafactor optimizer({p}, {.learning_rate = 0.5, .beta1 = 0.9, .scale_parameter = false, .relative_step = false});
  take_step(p, {4, -5, 6}, optimizer);  // the first normalized gradient is the sign
  expect_near(p.to_vector<double>(), {1 - 0.05, 2 + 0.05, 3 - 0.05});
  EXPECT_EQ(optimizer.named_state().size(), 2U);  // exp_avg and exp_avg_sq
}

TEST(AdafactorTest, ArgumentsThatContradictEachOtherAreErrors) {
  const FreshRank rank;
  const Tensor p = weight({1}, {1});
  EXPECT_THROW(Adafactor({p}, {.learning_rate = 1.0}), Error);
  EXPECT_THROW(Adafactor({p}, {.relative_step = false}), Error);
  EXPECT_THROW(Adafactor({p}, {.learning_rate = 1.0, .relative_step = false, .warmup_init = true}), Error);
}

TEST(AdafactorTest, TellsTheRateThatItComputes) {
  const FreshRank rank;
  const auto rate_of = [](const AdafactorOptions& options, std::int64_t step) {
    return Adafactor({weight({1}, {1})}, options).computed_rate(step);
  };
  EXPECT_EQ(rate_of({}, 1), 1e-2);
  EXPECT_EQ(rate_of({}, 40'000), 0.005);
  EXPECT_EQ(rate_of({.warmup_init = true}, 3), 3e-6);
  EXPECT_EQ(rate_of({.learning_rate = 1.0, .relative_step = false}, 1), std::nullopt);
  EXPECT_TRUE(computes_rate("adafactor", "relative_step=true"));
  EXPECT_FALSE(computes_rate("adafactor", ""));
  EXPECT_FALSE(computes_rate("sgd", "momentum=0.5"));
}

// The weight of an attention layer is stored with more dims than in files; its columns are dims 1 and 2.
TEST(AdafactorTest, TheMatrixIsThatOfTheFiles) {
  const std::vector<double> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<double> gradient{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  const auto after = [&](const Dims& dims, const Dims& exported) {
    const FreshRank rank;
    const Tensor p = weight(dims, values);
    p.impl().exported_dims = exported;
    Adafactor optimizer({p}, {});
    take_step(p, gradient, optimizer);
    return p.to_vector<double>();
  };
  const auto matrix = after({2, 6}, {2, 6});
  expect_near(after({2, 3, 2}, {2, 6}), matrix, 1e-15);
  EXPECT_NE(after({2, 3, 2}, {2, 3, 2}), matrix);
}

TEST(LionTest, TwoStepsEqualThoseComputedByHand) {
  const FreshRank rank;
  const Tensor p = weight({2}, {1, -1});
  Lion optimizer(std::vector<Tensor>{p}, {.learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.5, .weight_decay = 0.2});
  take_step(p, {8, -2}, optimizer);
  expect_near(p.to_vector<double>(), {0.98 - 0.1, -0.98 + 0.1});
  take_step(p, {-1, 20}, optimizer);  // m = (4, -1): 0.9 * 4 - 0.1 > 0, -0.9 + 2 > 0
  expect_near(p.to_vector<double>(), {0.98 * 0.88 - 0.1, -0.98 * 0.88 - 0.1});
}

// U^T U for the update U of a tall matrix has eigenvalues near 1: the iteration maps singular values into [0.7, 1.2].
TEST(MuonTest, TheUpdateIsNearlyOrthogonal) {
  const FreshRank rank;
  std::vector<double> gradient(15);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = std::sin(1.3 * static_cast<double>(i * i) + 0.3);
  const Tensor p = weight({5, 3}, std::vector<double>(15, 0.0));
  Muon optimizer(std::vector<Tensor>{p}, {.learning_rate = 1, .weight_decay = 0});
  take_step(p, gradient, optimizer);
  const auto u = p.to_vector<double>();
  const double factor = std::sqrt(5.0 / 3.0);
  double trace_of_gram = 0;
  for (const double x : u) trace_of_gram += x * x / (factor * factor);
  EXPECT_GT(trace_of_gram, 3 * 0.49);
  EXPECT_LT(trace_of_gram, 3 * 1.44);
  double along = 0;  // the update goes against the gradient
  for (std::size_t i = 0; i < u.size(); ++i) along += u[i] * gradient[i];
  EXPECT_LT(along, 0);
}

// For a diagonal matrix the iteration acts on each diagonal element.
TEST(MuonTest, TheIterationIsThePolynomialOfTheSingularValues) {
  const FreshRank rank;
  const Tensor p = weight({2, 3}, {1, 0, 0, 0, 1, 0});
  Muon optimizer(std::vector<Tensor>{p}, {.learning_rate = 0.5,
                                          .weight_decay = 0.2,
                                          .momentum = 0.9,
                                          .nesterov = false,
                                          .ns_steps = 2,
                                          .adjust_lr_fn = MuonRateRule::kMatchRmsAdamW});
  take_step(p, {3, 0, 0, 0, 4, 0}, optimizer);
  std::vector<double> s{0.6, 0.8};  // divided by the norm
  for (int i = 0; i < 2; ++i)
    for (double& x : s) x = 3.4445 * x - 4.775 * std::pow(x, 3) + 2.0315 * std::pow(x, 5);
  const double rate = 0.5 * 0.2 * std::sqrt(3.0);
  expect_near(p.to_vector<double>(), {0.9 - rate * s[0], 0, 0, 0, 0.9 - rate * s[1], 0});
}

TEST(MuonTest, VectorsAndKernelsAreErrorsThatNameTheParameter) {
  const FreshRank rank;
  const Tensor bias = weight({3}, {1, 2, 3}, "h.0.bias");
  try {
    const Muon optimizer(std::vector<Tensor>{bias}, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("h.0.bias"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(Muon::accepts(weight({2, 2, 3, 3}, std::vector<double>(36, 1.0))));
  // After the failed construction the parameter belongs to no optimizer.
  const SGD other(std::vector<Tensor>{bias}, {});
}

TEST(GroupTest, AGroupKeepsTheRatioOfItsRate) {
  const FreshRank rank;
  const Tensor a = weight({1}, {0}, "a");
  const Tensor b = weight({1}, {0}, "b");
  SGD optimizer(std::vector<ParameterGroup>{{{a}}, {{b}, 0, 0.5}}, {.learning_rate = 1});
  optimizer.set_learning_rate(0.1);  // a tenth, as of a schedule
  EXPECT_DOUBLE_EQ(optimizer.learning_rate_of(0), 0.1);
  EXPECT_DOUBLE_EQ(optimizer.learning_rate_of(1), 0.05);
  sum(a + b).backward();
  optimizer.step();
  mark_step();
  EXPECT_NEAR(a.item(), -0.1, 1e-15);
  EXPECT_NEAR(b.item(), -0.05, 1e-15);
}

TEST(CombinedTest, AllPartsStepAndKeepTheRatioOfTheirRates) {
  const FreshRank rank;
  const Tensor a = weight({1}, {0}, "a");
  const Tensor b = weight({1}, {0}, "b");
  std::vector<std::unique_ptr<Optimizer>> parts;
  parts.push_back(std::make_unique<SGD>(std::vector<Tensor>{a}, SgdOptions{.learning_rate = 1}));
  parts.push_back(std::make_unique<SGD>(std::vector<Tensor>{b}, SgdOptions{.learning_rate = 4, .momentum = 0.5}));
  CombinedOptimizer optimizer(std::move(parts));
  optimizer.set_learning_rate(0.5);
  sum(a + b).backward();
  optimizer.step();
  mark_step();
  EXPECT_NEAR(a.item(), -0.5, 1e-15);
  EXPECT_NEAR(b.item(), -2, 1e-15);
  EXPECT_EQ(optimizer.parameters().size(), 2U);
  EXPECT_NE(optimizer.state_dict().find("momentum_buffer.b"), nullptr);
  EXPECT_EQ(optimizer.state_dict().find("step")->tensor.item(), 1);
  EXPECT_EQ(optimizer.optimizers()[1]->step_count(), 1);
}

TEST(EmaTest, TheFirstUpdateCopiesAndLaterOnesAverage) {
  const FreshRank rank;
  const Tensor p = weight({1}, {2});
  SGD optimizer(std::vector<Tensor>{p}, {.learning_rate = 1});
  ExponentialMovingAverage ema({p}, {.decay = 0.75});
  EXPECT_THROW(ema.swap(), Error);
  ema.update();
  mark_step();
  sum(p * 4.0).backward();
  optimizer.step();  // p = -2
  ema.update();      // 0.75 * 2 - 0.25 * 2
  mark_step();
  EXPECT_EQ(ema.state_dict().find("ema.w")->tensor.item(), 1);
  ema.swap();
  mark_step();
  EXPECT_EQ(p.item(), 1);
  ema.swap();
  mark_step();
  EXPECT_EQ(p.item(), -2);
  EXPECT_EQ(ema.state_dict().find("ema.w")->tensor.item(), 1);
}

TEST(EmaTest, TheNumberOfUpdatesLimitsTheDecay) {
  const FreshRank rank;
  Tensor p = weight({1}, {1});
  ExponentialMovingAverage ema({p}, {.decay = 0.999, .use_num_updates = true});
  ema.update();
  mark_step();
  p.assign(Tensor::from<double>({1}, {0}));
  ema.update();
  mark_step();
  EXPECT_NEAR(ema.state_dict().find("ema.w")->tensor.item(), 3.0 / 12.0, 1e-15);
}

// The variables of a stack are updated as if they were separate.
TEST(StackTest, AStackIsUpdatedLikeSeparateVariables) {
  const std::vector<double> values{1, 2, 3, 4, 5, 6, -1, 0.5, 2, 8, 1, 1};
  const std::vector<double> gradient{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  const auto after = [&](bool is_stack, auto make) {
    const FreshRank rank;
    std::vector<Tensor> all;
    if (is_stack) {
      all = {weight({2, 2, 3}, values, "each.w")};
      all[0].impl().stack_count = 2;
    } else {
      all = {weight({2, 3}, {values.begin(), values.begin() + 6}, "0.w"),
             weight({2, 3}, {values.begin() + 6, values.end()}, "1.w")};
    }
    const auto optimizer = make(all);
    const Tensor g = Tensor::from<double>({2, 2, 3}, gradient);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i].set_grad(is_stack ? g * 1.0 : g.slice(0, static_cast<int>(i), static_cast<int>(i) + 1).reshape({2, 3}));
    optimizer->step();
    mark_step();
    std::vector<double> out;
    for (const Tensor& p : all)
      for (const double x : p.to_vector<double>()) out.push_back(x);
    return out;
  };
  const auto adafactor = [](const std::vector<Tensor>& all) {
    return std::make_unique<Adafactor>(all, AdafactorOptions{});
  };
  const auto muon = [](const std::vector<Tensor>& all) { return std::make_unique<Muon>(all, MuonOptions{}); };
  expect_near(after(true, adafactor), after(false, adafactor), 1e-14);
  expect_near(after(true, muon), after(false, muon), 1e-14);
}

}  // namespace
}  // namespace tessera::optim
