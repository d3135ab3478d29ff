// SPDX-License-Identifier: Apache-2.0
// Compares Adagrad, Adadelta, RMSprop, Adamax, NAdam and RAdam with steps computed by hand, in PyTorch's order.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "frontend/on_ranks.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/optim/adadelta.h"
#include "tessera/optim/adagrad.h"
#include "tessera/optim/adamax.h"
#include "tessera/optim/nadam.h"
#include "tessera/optim/radam.h"
#include "tessera/optim/rmsprop.h"

namespace tessera::optim {
namespace {

using Elements = std::vector<double>;

constexpr int kUpdates = 7;
const Dims kParameterDims{5, 3};

Elements sines(double shift, double scale) {
  Elements out(15);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = scale * std::sin(2.3 * static_cast<double>(i) + shift);
  return out;
}

/// The update of one element: changes p, and may use p before the step, the gradient g and the number t of the step.
using Rule = std::function<void(std::size_t i, double& p, double g, int t)>;

/// Takes several steps with the optimizer and with the rule, and compares them after each step.
void expect_rule(const std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)>& make, const Rule& rule) {
  const FreshRank rank;
  Elements expected = sines(0.3, 1.2);
  Tensor p = Tensor::from<double>(kParameterDims, expected);
  p.set_name("w");
  p.set_requires_grad();
  const auto optimizer = make({p});
  for (int t = 1; t <= kUpdates; ++t) {
    const Elements g = sines(1.1 * t, 0.7 + 0.2 * t);
    for (std::size_t i = 0; i < g.size(); ++i) rule(i, expected[i], g[i], t);
    optimizer->zero_grad();
    sum(p * Tensor::from<double>(kParameterDims, g)).backward();
    optimizer->step();
    mark_step();
    const Elements values = p.to_vector<double>();
    for (std::size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(values[i], expected[i], 1e-13) << "step " << t << ", " << i;
  }
}

template <class O, class Options>
auto maker(const Options& options) {
  return [options](const std::vector<Tensor>& parameters) { return std::make_unique<O>(parameters, options); };
}

TEST(AdaptiveTest, AdagradDividesByTheSumOfAllSquares) {
  for (const bool maximize : {false, true}) {
    Elements sum(15, 0.25);
    expect_rule(maker<Adagrad>(AdagradOptions{.learning_rate = 0.1,
                                              .lr_decay = 0.05,
                                              .weight_decay = 0.2,
                                              .initial_accumulator_value = 0.25,
                                              .epsilon = 1e-3,
                                              .maximize = maximize}),
                [&](std::size_t i, double& p, double g, int t) {
                  g = (maximize ? -g : g) + 0.2 * p;
                  sum[i] += g * g;
                  p -= 0.1 / (1 + (t - 1) * 0.05) * g / (std::sqrt(sum[i]) + 1e-3);
                });
  }
}

TEST(AdaptiveTest, AdadeltaHasTheUnitsOfTheParameter) {
  Elements v(15), u(15);
  expect_rule(maker<Adadelta>(AdadeltaOptions{.learning_rate = 0.7, .rho = 0.8, .epsilon = 1e-4, .weight_decay = 0.1}),
              [&](std::size_t i, double& p, double g, int) {
                g += 0.1 * p;
                v[i] = 0.8 * v[i] + 0.2 * g * g;
                const double change = std::sqrt(u[i] + 1e-4) / std::sqrt(v[i] + 1e-4) * g;
                u[i] = 0.8 * u[i] + 0.2 * change * change;
                p -= 0.7 * change;
              });
}

TEST(AdaptiveTest, RmspropDividesByTheRootOfTheAverage) {
  Elements v(15);
  expect_rule(maker<RMSprop>(RMSpropOptions{.learning_rate = 0.05, .alpha = 0.9, .epsilon = 1e-3}),
              [&](std::size_t i, double& p, double g, int) {
                v[i] = 0.9 * v[i] + 0.1 * g * g;
                p -= 0.05 * g / (std::sqrt(v[i]) + 1e-3);
              });
}

TEST(AdaptiveTest, CenteredRmspropDividesByTheDeviation) {
  Elements v(15), m(15), buffer(15);
  expect_rule(maker<RMSprop>(RMSpropOptions{.learning_rate = 0.05,
                                            .alpha = 0.9,
                                            .epsilon = 1e-2,
                                            .weight_decay = 0.3,
                                            .momentum = 0.6,
                                            .centered = true,
                                            .maximize = true}),
              [&](std::size_t i, double& p, double g, int) {
                g = -g + 0.3 * p;
                v[i] = 0.9 * v[i] + 0.1 * g * g;
                m[i] = 0.9 * m[i] + 0.1 * g;
                buffer[i] = 0.6 * buffer[i] + g / (std::sqrt(v[i] - m[i] * m[i]) + 1e-2);
                p -= 0.05 * buffer[i];
              });
}

TEST(AdaptiveTest, AdamaxDividesByTheLargestGradient) {
  Elements m(15), u(15);
  expect_rule(maker<Adamax>(AdamaxOptions{
                  .learning_rate = 0.03, .beta1 = 0.8, .beta2 = 0.7, .epsilon = 1e-2, .weight_decay = 0.15}),
              [&](std::size_t i, double& p, double g, int t) {
                g += 0.15 * p;
                m[i] = 0.8 * m[i] + 0.2 * g;
                u[i] = std::max(0.7 * u[i], std::abs(g) + 1e-2);
                p -= 0.03 / (1 - std::pow(0.8, t)) * m[i] / u[i];
              });
}

TEST(AdaptiveTest, NAdamHasTheMomentumOfTheNextStep) {
  for (const bool decoupled : {false, true}) {
    Elements m(15), v(15);
    Elements product(15, 1.0);
    const auto momentum = [](int t) { return 0.8 * (1 - 0.5 * std::pow(0.96, t * 0.5)); };
    expect_rule(maker<NAdam>(NAdamOptions{.learning_rate = 0.03,
                                          .beta1 = 0.8,
                                          .beta2 = 0.9,
                                          .epsilon = 1e-3,
                                          .weight_decay = 0.2,
                                          .momentum_decay = 0.5,
                                          .decoupled_weight_decay = decoupled}),
                [&](std::size_t i, double& p, double g, int t) {
                  if (decoupled)
                    p *= 1 - 0.03 * 0.2;
                  else
                    g += 0.2 * p;
                  const double mu = momentum(t);
                  const double next = momentum(t + 1);
                  product[i] *= mu;
                  m[i] = 0.8 * m[i] + 0.2 * g;
                  v[i] = 0.9 * v[i] + 0.1 * g * g;
                  const double denominator = std::sqrt(v[i] / (1 - std::pow(0.9, t))) + 1e-3;
                  p -= 0.03 * (1 - mu) / (1 - product[i]) * g / denominator;
                  p -= 0.03 * next / (1 - product[i] * next) * m[i] / denominator;
                });
  }
}

TEST(AdaptiveTest, RAdamIsRectifiedFromTheStepOnWhereTheVarianceIsFinite) {
  for (const bool decoupled : {false, true}) {
    Elements m(15), v(15);
    int rectified = 0;
    expect_rule(maker<RAdam>(RAdamOptions{.learning_rate = 0.03,
                                          .beta1 = 0.8,
                                          .beta2 = 0.95,
                                          .epsilon = 1e-3,
                                          .weight_decay = 0.2,
                                          .decoupled_weight_decay = decoupled,
                                          .maximize = decoupled}),
                [&](std::size_t i, double& p, double g, int t) {
                  if (decoupled)
                    g = -g;
                  else
                    g += 0.2 * p;
                  if (decoupled) p *= 1 - 0.03 * 0.2;
                  m[i] = 0.8 * m[i] + 0.2 * g;
                  v[i] = 0.95 * v[i] + 0.05 * g * g;
                  const double correction = 1 - std::pow(0.95, t);
                  const double longest = 2 / 0.05 - 1;
                  const double length = longest - 2 * t * std::pow(0.95, t) / correction;
                  const double average = m[i] / (1 - std::pow(0.8, t));
                  if (length <= 5) {
                    p -= 0.03 * average;
                    return;
                  }
                  ++rectified;
                  const double rectification =
                      std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length));
                  p -= 0.03 * average * rectification * std::sqrt(correction) / (std::sqrt(v[i]) + 1e-3);
                });
    EXPECT_GT(rectified, 0);
    EXPECT_LT(rectified, 15 * kUpdates);
  }
}

TEST(AdaptiveTest, SgdAndAdamMaximize) {
  const FreshRank rank;
  Tensor p = Tensor::from<double>({1}, {2}).set_requires_grad();
  p.set_name("p");
  {
    SGD optimizer(std::vector<Tensor>{p}, {.learning_rate = 0.5, .weight_decay = 0.1, .maximize = true});
    sum(p * 3.0).backward();
    optimizer.step();
    mark_step();
    EXPECT_NEAR(p.item(), 2 - 0.5 * (-3 + 0.1 * 2), 1e-14);
  }
  p.zero_grad();
  const double before = p.item();
  AdamW optimizer(std::vector<Tensor>{p}, {.learning_rate = 0.1, .epsilon = 0, .maximize = true});
  sum(p * 3.0).backward();
  optimizer.step();
  mark_step();
  EXPECT_NEAR(p.item(), before + 0.1, 1e-14);
}

TEST(AdaptiveTest, StateHasTheNamesOfPyTorch) {
  const auto names = [](const auto& make) {
    const FreshRank rank;
    Tensor p = Tensor::from<double>({2, 3}, Elements(6, 1.0)).set_requires_grad();
    p.set_name("w");
    std::vector<std::string> out;
    for (const auto& state : make({p})->named_state()) out.push_back(state.name);
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(maker<Adagrad>(AdagradOptions{})), Names{"sum.w"});
  EXPECT_EQ(names(maker<Adadelta>(AdadeltaOptions{})), (Names{"square_avg.w", "acc_delta.w"}));
  EXPECT_EQ(names(maker<RMSprop>(RMSpropOptions{})), Names{"square_avg.w"});
  EXPECT_EQ(names(maker<RMSprop>(RMSpropOptions{.momentum = 0.9, .centered = true})),
            (Names{"square_avg.w", "momentum_buffer.w", "grad_avg.w"}));
  EXPECT_EQ(names(maker<Adamax>(AdamaxOptions{})), (Names{"exp_avg.w", "exp_inf.w"}));
  EXPECT_EQ(names(maker<NAdam>(NAdamOptions{})), (Names{"mu_product.w", "exp_avg.w", "exp_avg_sq.w"}));
  EXPECT_EQ(names(maker<RAdam>(RAdamOptions{})), (Names{"exp_avg.w", "exp_avg_sq.w"}));
}

// A state that starts with another value than 0 has it in every format.
TEST(AdaptiveTest, TheInitialValueOfAStateIsThatOfItsFormat) {
  for (const StateFormat format : {StateFormat::kFull, StateFormat::kBF16, StateFormat::kInt8}) {
    const FreshRank rank;
    Tensor p = Tensor::from<float>({67, 71}, std::vector<float>(67 * 71, 0.0F)).set_requires_grad();
    p.set_name("w");
    Adagrad optimizer(std::vector<Tensor>{p},
                      {.learning_rate = 1, .initial_accumulator_value = 4, .epsilon = 0, .state_format = format});
    p.set_grad(zeros_like(p) + 1e-4);
    optimizer.step();
    mark_step();
    for (const float value : p.to_vector<float>()) ASSERT_NEAR(value, -1e-4 / 2, 1e-7);
  }
}

// The momentum of NAdam is a number for each variable of a stack.
TEST(AdaptiveTest, AStackIsUpdatedLikeItsVariables) {
  const Elements values = sines(0.2, 1);
  const auto after = [&](bool is_stack) {
    const FreshRank rank;
    std::vector<Tensor> all;
    if (is_stack) {
      all = {Tensor::from<double>({3, 5}, values).set_requires_grad()};
      all[0].set_name("each.w");
      all[0].impl().stack_count = 3;
    } else {
      for (std::int64_t i = 0; i < 3; ++i) {
        all.push_back(Tensor::from<double>({5}, {values.begin() + 5 * i, values.begin() + 5 * (i + 1)}));
        all.back().set_name(std::to_string(i) + ".w");
        all.back().set_requires_grad();
      }
    }
    NAdam optimizer(all, {.learning_rate = 0.1});
    for (int t = 0; t < 3; ++t) {
      const Tensor g = Tensor::from<double>({3, 5}, sines(t, 2));
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i].set_grad(is_stack ? g * 1.0 : g.select(0, static_cast<std::int64_t>(i)));
      optimizer.step();
      mark_step();
    }
    Elements out;
    for (const Tensor& p : all)
      for (const double x : p.to_vector<double>()) out.push_back(x);
    return out;
  };
  const Elements stacked = after(true);
  const Elements separate = after(false);
  for (std::size_t i = 0; i < stacked.size(); ++i) EXPECT_NEAR(stacked[i], separate[i], 1e-14) << i;
}

TEST(AdaptiveTest, WrongOptionsAreErrors) {
  const FreshRank rank;
  const Tensor p = Tensor::from<double>({1}, {1}).set_requires_grad();
  const auto error_of_options = [&](const auto& make) {
    try {
      (void)make({p});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto expect = [&](const auto& make, const std::string& text) {
    EXPECT_NE(error_of_options(make).find(text), std::string::npos) << error_of_options(make);
  };
  expect(maker<Adagrad>(AdagradOptions{.lr_decay = -1}), "lr_decay must not be negative, got -1");
  expect(maker<Adagrad>(AdagradOptions{.initial_accumulator_value = -1}), "initial_accumulator_value must not be");
  expect(maker<Adadelta>(AdadeltaOptions{.rho = 1.5}), "rho must be in [0, 1], got 1.5");
  expect(maker<RMSprop>(RMSpropOptions{.momentum = -0.5}), "momentum must not be negative, got -0.5");
  expect(maker<Adamax>(AdamaxOptions{.beta2 = 1}), "betas must be in [0, 1), got 1");
  expect(maker<NAdam>(NAdamOptions{.momentum_decay = -1}), "momentum_decay must not be negative, got -1");
  expect(maker<RAdam>(RAdamOptions{.epsilon = -1}), "epsilon must not be negative, got -1");
}

}  // namespace
}  // namespace tessera::optim
