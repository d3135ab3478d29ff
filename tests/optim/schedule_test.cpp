// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules and the factory: names, arguments and formulas of Hugging Face's Trainer.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/optim/factory.h"
#include "tessera/optim/schedule.h"

namespace tessera::optim {
namespace {

using testing::error_of;

TEST(ScheduleTest, RestartsBeginAtTheFullRate) {
  const Schedule schedule(ScheduleType::kCosineWithRestarts, 1, 2, 10, {.num_cycles = 2});
  EXPECT_NEAR(schedule.rate(2), 1, 1e-15);
  EXPECT_NEAR(schedule.rate(4), 0.5, 1e-15);
  EXPECT_NEAR(schedule.rate(6), 1, 1e-15);
  EXPECT_EQ(schedule.rate(10), 0);
}

TEST(ScheduleTest, PolynomialEndsAtTheLastRate) {
  const Schedule schedule(ScheduleType::kPolynomial, 0.5, 0, 10, {.lr_end = 0.1, .power = 2});
  EXPECT_NEAR(schedule.rate(0), 0.5, 1e-15);
  EXPECT_NEAR(schedule.rate(5), 0.4 * 0.25 + 0.1, 1e-15);
  EXPECT_NEAR(schedule.rate(12), 0.1, 1e-15);
  EXPECT_THROW(Schedule(ScheduleType::kPolynomial, 1e-8, 0, 10), Error);
}

TEST(ScheduleTest, InverseSquareRootHalvesTheRateAtFourTimesTheScale) {
  EXPECT_NEAR(Schedule(ScheduleType::kInverseSqrt, 1, 5, 100).rate(20), 0.5, 1e-15);
  EXPECT_NEAR(Schedule(ScheduleType::kInverseSqrt, 1, 0, 100).rate(30000), 0.5, 1e-15);
  EXPECT_NEAR(Schedule(ScheduleType::kInverseSqrt, 1, 5, 100, {.timescale = 10}).rate(35), 0.5, 1e-15);
}

TEST(ScheduleTest, CosinesWithALeastRateEndThere) {
  const Schedule by_rate(ScheduleType::kCosineWithMinLr, 2, 0, 8, {.min_lr = 0.5});
  EXPECT_NEAR(by_rate.rate(4), 0.5 + 0.75, 1e-15);
  EXPECT_NEAR(by_rate.rate(8), 0.5, 1e-15);
  const Schedule warm(ScheduleType::kCosineWarmupWithMinLr, 1, 4, 12, {.min_lr_rate = 0.2, .warmup_lr_rate = 0.1});
  EXPECT_NEAR(warm.rate(0), 0.1, 1e-15);
  EXPECT_NEAR(warm.rate(3), 1, 1e-15);
  EXPECT_NEAR(warm.rate(7), 0.6, 1e-15);
  EXPECT_NEAR(warm.rate(11), 0.2, 1e-15);
  EXPECT_THROW(Schedule(ScheduleType::kCosineWithMinLr, 1, 0, 8), Error);
  EXPECT_THROW(Schedule(ScheduleType::kCosineWithMinLr, 1, 0, 8, {.min_lr = 0.1, .min_lr_rate = 0.1}), Error);
}

TEST(ScheduleTest, WarmupStableDecayHasThreeStages) {
  const Schedule schedule(ScheduleType::kWarmupStableDecay, 1, 4, 20,
                          {.num_decay_steps = 8, .decay_type = "linear", .min_lr_ratio = 0.1});
  EXPECT_NEAR(schedule.rate(2), 0.5 * 0.9 + 0.1, 1e-15);
  EXPECT_EQ(schedule.rate(11), 1);
  EXPECT_NEAR(schedule.rate(16), 0.5 * 0.9 + 0.1, 1e-15);
  EXPECT_NEAR(schedule.rate(20), 0.1, 1e-15);
  EXPECT_THROW(Schedule(ScheduleType::kWarmupStableDecay, 1, 4, 20), Error);
}

TEST(ScheduleTest, APlateauReducesTheRateAfterMoreThanPatienceEvaluations) {
  Schedule schedule(ScheduleType::kReduceOnPlateau, 1, 0, 100, {.factor = 0.5, .patience = 1, .cooldown = 1});
  for (const double metric : {3.0, 2.0, 2.0, 1.9999}) schedule.note_metric(metric);  // twice not better by 1e-4 of it
  EXPECT_EQ(schedule.rate(4), 0.5);
  Schedule continued(ScheduleType::kReduceOnPlateau, 1, 0, 100, {.factor = 0.5, .patience = 1, .cooldown = 1});
  continued.set_state(schedule.state());
  for (Schedule* one : {&schedule, &continued}) {
    for (const double metric : {2.0, 2.0}) one->note_metric(metric);  // the first one cools down
    EXPECT_EQ(one->rate(6), 0.5);
    one->note_metric(2.0);
    EXPECT_EQ(one->rate(7), 0.25);
  }
}

TEST(ScheduleTest, AFiniteMetricIsBetterThanAnInfiniteOneOnAPlateau) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::map<std::string, std::vector<double>> better = {{"min", {infinity, 3, 2}}, {"max", {-infinity, 2, 3}}};
  for (const auto& [mode, metrics] : better) {
    Schedule schedule(ScheduleType::kReduceOnPlateau, 1, 0, 100, {.mode = mode, .factor = 0.5, .patience = 0});
    for (const double metric : metrics) schedule.note_metric(metric);
    EXPECT_EQ(schedule.rate(3), 1) << mode;
    schedule.note_metric(metrics.back());
    EXPECT_EQ(schedule.rate(4), 0.5) << mode;
  }
}

TEST(ScheduleTest, ArgumentsAreReadFromJsonAndFromAList) {
  const auto json = ScheduleArguments::parse(ScheduleType::kPolynomial, R"({"lr_end": 1e-3, "power": 2})");
  const auto list = ScheduleArguments::parse(ScheduleType::kPolynomial, "lr_end=1e-3, power=2");
  for (const auto& arguments : {json, list}) {
    EXPECT_EQ(arguments.lr_end, 1e-3);
    EXPECT_EQ(arguments.power, 2);
  }
  const std::string error = error_of([] { ScheduleArguments::parse(ScheduleType::kCosine, "power=2"); });
  EXPECT_NE(error.find("the schedule cosine does not use power; its arguments are num_cycles"), std::string::npos)
      << error;
}

TEST(ScheduleTest, EveryNameGivesItsSchedule) {
  EXPECT_EQ(schedule_names().size(), 11U);
  for (const std::string& name : schedule_names()) (void)schedule_from_name(name);
}

TEST(FactoryTest, EveryNameMakesAnOptimizerThatLowersTheLoss) {
  for (const std::string& name : optimizer_names()) {
    const FreshRank rank;
    Tensor matrix = Tensor::from<float>({2, 3}, {1, 2, 3, -4, 5, 6}).set_requires_grad();
    Tensor bias = Tensor::from<float>({3}, {1, 1, 1}).set_requires_grad();
    const auto optimizer = make_optimizer(name, {{{matrix, bias}, 0.01}}, {.learning_rate = 0.01});
    const auto loss = [&] { return sum(square(matrix + bias)); };
    const double before = loss().item();
    loss().backward();
    optimizer->step();
    mark_step();
    EXPECT_LT(loss().item(), before) << name;
  }
}

TEST(FactoryTest, ErrorsSayWhatIsKnown) {
  EXPECT_NE(error_of([] { check_optimizer("adamw_torc", ""); }).find("adamw_torch"), std::string::npos);
  EXPECT_NE(error_of([] {
              check_optimizer("galore_adamw", "");
            }).find("does not have the optimizer galore_adamw of Hugging Face"),
            std::string::npos);
  EXPECT_NE(error_of([] { check_optimizer("sgd", "beta1=0.5"); }).find("momentum"), std::string::npos);
  EXPECT_NE(error_of([] { check_optimizer("sgd", "momentum"); }).find("name=value"), std::string::npos);
  check_optimizer("sgd", "momentum=0.9,nesterov=true");
  EXPECT_NE(error_of([] { check_optimizer("rmsprop", "beta1=0.5"); }).find("alpha, eps, momentum, centered"),
            std::string::npos);
  check_optimizer("adagrad", "lr_decay=0.1,initial_accumulator_value=0.1,eps=1e-8,state_dtype=bf16");
}

}  // namespace
}  // namespace tessera::optim
