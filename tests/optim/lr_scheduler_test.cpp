// SPDX-License-Identifier: Apache-2.0
// Schedules under the names of torch.optim.lr_scheduler: their rates are computed here by their definitions.
#include "tessera/optim/lr_scheduler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::optim::lr_scheduler {
namespace {

using Rates = std::vector<double>;

// An optimizer of one parameter with the base rate 0.8.
struct OneParameter {
  Tensor p = Tensor::from({1.0}, {1}).set_requires_grad();
  SGD sgd{std::vector<Tensor>{p}, SgdOptions{.learning_rate = 0.8}};
};

template <class Scheduler>
Rates rates_of(const OneParameter& of, Scheduler& scheduler, int count) {
  Rates out;
  for (int i = 0; i < count; ++i, scheduler.step()) {
    EXPECT_EQ(of.sgd.learning_rate(), scheduler.get_last_lr());
    out.push_back(of.sgd.learning_rate());
  }
  return out;
}

void expect_rates(const Rates& got, const Rates& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-15) << i;
}

template <class Scheduler, class... Args>
void expect_schedule(const Rates& expected, Args... args) {
  const FreshRank rank;
  OneParameter of;
  Scheduler scheduler(of.sgd, args...);
  expect_rates(rates_of(of, scheduler, static_cast<int>(expected.size())), expected);
}

TEST(LrScheduler, FactorsOfTheBaseRate) {
  expect_schedule<StepLR>({0.8, 0.8, 0.4, 0.4, 0.2}, 2, 0.5);
  expect_schedule<MultiStepLR>({0.8, 0.4, 0.4, 0.2, 0.2}, std::vector<std::int64_t>{1, 3}, 0.5);
  expect_schedule<ExponentialLR>({0.8, 0.4, 0.2, 0.1}, 0.5);
  expect_schedule<ConstantLR>({0.2, 0.2, 0.8, 0.8}, 0.25, 2);
  expect_schedule<LinearLR>({0.2, 0.4, 0.6, 0.8, 0.8}, 0.25, 1.0, 3);
  expect_schedule<PolynomialLR>({0.8, 0.45, 0.2, 0.05, 0, 0}, 4, 2.0);
  expect_schedule<LambdaLR>({0, 0.8, 1.6}, [](std::int64_t step) { return static_cast<double>(step); });
  // cos(0), cos(pi / 3), cos(2 pi / 3), cos(pi), and back
  expect_schedule<CosineAnnealingLR>({0.8, 0.65, 0.35, 0.2, 0.35, 0.65, 0.8}, 3, 0.2);
}

TEST(LrScheduler, OneCycleRisesAndFalls) {
  // The rate rises from 1 / 4 to 1 in the steps 0 to 2, and falls to 1 / 8 in the steps 2 to 9.
  const OneCycleOptions linear{
      .pct_start = 0.3, .anneal_strategy = AnnealStrategy::kLinear, .div_factor = 4, .final_div_factor = 2};
  Rates expected{0.25, 0.625, 1};
  for (int i = 1; i <= 7; ++i) expected.push_back(1 - 0.875 * i / 7);
  expect_schedule<OneCycleLR>(expected, 1.0, 10, linear);
  OneCycleOptions cosine = linear;
  cosine.anneal_strategy = AnnealStrategy::kCos;
  expected = {0.25, 0.625, 1};
  for (int i = 1; i <= 7; ++i) expected.push_back(0.125 + 0.875 * (1 + std::cos(std::numbers::pi * i / 7)) / 2);
  expect_schedule<OneCycleLR>(expected, 1.0, 10, cosine);
  OneCycleOptions three = linear;
  three.three_phase = true;
  expected = {0.25, 0.625, 1, 0.625, 0.25};
  for (int i = 1; i <= 5; ++i) expected.push_back(0.25 - 0.125 * i / 5);
  expect_schedule<OneCycleLR>(expected, 1.0, 10, three);
  const FreshRank rank;
  OneParameter of;
  OneCycleLR scheduler(of.sgd, 1, 2);
  scheduler.step();
  scheduler.step();
  EXPECT_EQ(testing::error_of([&] { scheduler.step(); }), "OneCycleLR: step 3 of 2");
}

TEST(LrScheduler, SequencesBeginAtTheirMilestones) {
  const FreshRank rank;
  OneParameter of;
  const std::vector<LRScheduler> parts{LinearLR(of.sgd, 0.25, 1, 3), ExponentialLR(of.sgd, 0.5)};
  SequentialLR scheduler(of.sgd, {LinearLR(of.sgd, 0.25, 1, 3), ExponentialLR(of.sgd, 0.5)}, {3});
  expect_rates(rates_of(of, scheduler, 6), {0.2, 0.4, 0.6, 0.8, 0.4, 0.2});
  EXPECT_EQ(testing::error_of([&] { SequentialLR(of.sgd, parts, {}); }),
            "SequentialLR: needs one milestone less than schedules, got 0 for 2 schedules");
  OneParameter other;
  EXPECT_EQ(testing::error_of([&] { SequentialLR(other.sgd, parts, {3}); }),
            "SequentialLR: all schedules must be those of the same optimizer");
}

TEST(LrScheduler, APlateauReducesTheRate) {
  const FreshRank rank;
  OneParameter of;
  ReduceLROnPlateau scheduler(of.sgd, {.factor = 0.5, .patience = 1});
  Rates rates;
  for (const double metric : {1.0, 1.0, 1.0, 0.5, 0.5, 0.5}) {
    scheduler.step(metric);
    rates.push_back(of.sgd.learning_rate());
  }
  // The second metric in succession that is not better halves the rate.
  expect_rates(rates, {0.8, 0.8, 0.4, 0.4, 0.4, 0.2});
}

TEST(LrScheduler, AResumedScheduleContinues) {
  const FreshRank rank;
  OneParameter first, second;
  StepLR before(first.sgd, 2, 0.5), after(second.sgd, 2, 0.5);
  for (int i = 0; i < 3; ++i) before.step();
  after.load_state_dict(before.state_dict());
  EXPECT_EQ(after.last_epoch(), 3);
  EXPECT_NEAR(second.sgd.learning_rate(), 0.4, 1e-15);
  after.step();
  EXPECT_NEAR(second.sgd.learning_rate(), 0.2, 1e-15);
  EXPECT_NE(testing::error_of([&] { after.load_state_dict({}); }), "no error");
}

// p decreases by rate * 1 at each step.
TEST(LrScheduler, UpdatesUseTheRatesOfOneProgram) {
  const FreshRank rank;
  OneParameter of;
  ExponentialLR scheduler(of.sgd, 0.5);
  std::int64_t compilations = 0;
  for (int i = 0; i < 4; ++i, scheduler.step()) {
    sum(of.p).backward();
    of.sgd.step();
    of.sgd.zero_grad();
    mark_step();
    if (i == 1) compilations = lazy_counters().compilations;
  }
  EXPECT_NEAR(of.p.to_vector<double>()[0], 1 - 0.8 * (1 + 0.5 + 0.25 + 0.125), 1e-12);
  EXPECT_EQ(lazy_counters().compilations, compilations);
}

}  // namespace
}  // namespace tessera::optim::lr_scheduler
