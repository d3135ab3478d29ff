// SPDX-License-Identifier: Apache-2.0
// Compares optimizers with steps computed by hand, and learning-rate schedules with Hugging Face's formulas.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/ir/op_def.h"
#include "tessera/optim/optimizer.h"
#include "tessera/optim/schedule.h"

namespace tessera::optim {
namespace {

Tensor variable(std::vector<double> values) {
  Tensor out = Tensor::from<double>({static_cast<std::int64_t>(values.size())}, values);
  out.set_requires_grad();
  return out;
}

// One step on the loss sum(c * p): the gradient is c.
void step_with_gradient(Tensor& parameter, const std::vector<double>& gradient, Optimizer& optimizer) {
  sum(parameter * Tensor::from<double>({static_cast<std::int64_t>(gradient.size())}, gradient)).backward();
  optimizer.step();
  optimizer.zero_grad();
  mark_step();
}

TEST(AdamWTest, TwoStepsEqualThoseComputedByHand) {
  const FreshRank rank;
  Tensor p = variable({1.0, -2.0});
  AdamW optimizer({p}, {.learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.01});
  const std::vector<std::vector<double>> gradients{{0.5, -4.0}, {-1.0, 2.0}};
  std::vector<double> expected{1.0, -2.0}, m{0, 0}, v{0, 0};
  for (int t = 1; t <= 2; ++t) {
    for (std::size_t i = 0; i < 2; ++i) {
      const double g = gradients[static_cast<std::size_t>(t - 1)][i];
      expected[i] *= 1 - 0.1 * 0.01;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.99 * v[i] + 0.01 * g * g;
      const double m_hat = m[i] / (1 - std::pow(0.9, t));
      const double v_hat = v[i] / (1 - std::pow(0.99, t));
      expected[i] -= 0.1 * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
    step_with_gradient(p, gradients[static_cast<std::size_t>(t - 1)], optimizer);
    const auto values = p.to_vector<double>();
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(values[i], expected[i], 1e-14);
  }
  EXPECT_EQ(optimizer.named_state().size(), 2U);
}

TEST(SgdTest, MomentumAndWeightDecayFollowPyTorch) {
  const FreshRank rank;
  Tensor p = variable({1.0});
  SGD optimizer(std::vector<Tensor>{p}, {.learning_rate = 0.1, .momentum = 0.5, .weight_decay = 0.2});
  step_with_gradient(p, {1.0}, optimizer);  // d = 1 + 0.2 = 1.2, buf = 1.2, p = 0.88
  EXPECT_NEAR(p.item(), 0.88, 1e-15);
  step_with_gradient(p, {1.0}, optimizer);  // d = 1 + 0.176 = 1.176, buf = 0.6 + 1.176 = 1.776, p = 0.7024
  EXPECT_NEAR(p.item(), 0.7024, 1e-15);
}

TEST(ClipTest, GradientsAreScaledToTheGlobalNorm) {
  const FreshRank rank;
  Tensor a = variable({1, 1});
  Tensor b = variable({1});
  (sum(a * 3.0) + sum(b * std::sqrt(7.0))).backward();  // norm sqrt(9 + 9 + 7) = 5
  const Tensor norm = clip_grad_norm({a, b}, 2.0);
  mark_step();
  EXPECT_NEAR(norm.item(), 5, 1e-14);
  EXPECT_NEAR(a.grad().to_vector<double>()[1], 3 * 2 / (5 + 1e-6), 1e-14);
  EXPECT_NEAR(b.grad().item(), std::sqrt(7.0) * 2 / (5 + 1e-6), 1e-14);
}

TEST(ClipTest, SmallGradientsAreNotChanged) {
  const FreshRank rank;
  Tensor a = variable({1});
  sum(a * 0.5).backward();
  clip_grad_norm({a}, 2.0);
  mark_step();
  EXPECT_EQ(a.grad().item(), 0.5);
}

TEST(OptimizerTest, StateExistsFromConstruction) {
  const FreshRank rank;
  Tensor p = variable({1, 2, 3});
  p.set_name("p");
  const AdamW optimizer({p}, {});
  ASSERT_EQ(optimizer.named_state().size(), 2U);
  EXPECT_EQ(optimizer.named_state()[0].name, "exp_avg.p");
  EXPECT_EQ(optimizer.named_state()[1].tensor.to_vector<double>(), (std::vector<double>{0, 0, 0}));
}

TEST(OptimizerTest, AParameterBelongsToOneOptimizer) {
  const FreshRank rank;
  Tensor p = variable({1});
  const AdamW first({p}, {});
  EXPECT_THROW(AdamW({p}, {}), Error);
}

TEST(OptimizerTest, AFrozenParameterHasNoState) {
  const FreshRank rank;
  Tensor p = variable({1});
  Tensor frozen = variable({2}).set_requires_grad(false);
  p.set_name("p"), frozen.set_name("frozen");
  AdamW optimizer({p, frozen}, {});
  EXPECT_EQ(optimizer.named_state().size(), 2U);
  step_with_gradient(p, {1}, optimizer);
  EXPECT_EQ(frozen.item(), 2);
  frozen.set_requires_grad();
  sum(p * frozen).backward();
  EXPECT_THROW(optimizer.step(), Error);
}

// A linear layer on a batch of 6 rows: w is 4x6 (3 divides the columns, not the rows), b has 6 elements, c has one.
struct Regression {
  Tensor w = Tensor::from<double>({4, 6}, std::vector<double>(24, 0.5)).set_requires_grad();
  Tensor b = variable({1, 2, 3, 4, 5, 6});
  Tensor c = variable({0.25});
  Tensor x;
  Regression() {
    std::vector<double> rows(24);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = std::sin(static_cast<double>(i));
    x = Tensor::from<double>({6, 4}, rows);
    w.set_name("w"), b.set_name("b"), c.set_name("c");
  }
  void step(Optimizer& optimizer) const {
    mean(square((matmul(x, w) + b) * c)).backward();
    clip_grad_norm({w, b, c}, 0.1);
    optimizer.step();
  }
};

TEST(OptimizerTest, StateIsShardedOverTheAxesOfTheBatch) {
  const FreshRank rank;
  plan_for_devices(3);
  const Mesh mesh({{"data", 3}});
  Regression model;
  mark_sharding(model.x, mesh, {"data", {}});
  AdamW optimizer({model.w, model.b, model.c}, {});
  model.step(optimizer);
  const StepPlan plan = plan_step();
  const auto state = optimizer.named_state();
  EXPECT_EQ(state.at(0).tensor.sharding()->str(), "{-,data}");
  EXPECT_EQ(state.at(3).tensor.sharding()->str(), "{data}");
  EXPECT_FALSE(state.at(4).tensor.sharding().has_value());  // one element cannot be sharded
  EXPECT_EQ(model.w.grad().sharding()->str(), "{-,data}");
  // Each gradient is reduce-scattered, each weight is gathered once, and only scalars are all-reduced.
  int gathered = 0;
  for (const auto& instruction : plan.partitioned.program.entry_computation().instructions) {
    if (instruction.op->name == "all-gather") ++gathered;
    EXPECT_TRUE(instruction.op->name != "all-reduce" || instruction.type.element_count() == 1)
        << instruction.type.str();
  }
  EXPECT_EQ(gathered, 2);
}

TEST(OptimizerTest, ShardedUpdatesEqualTheUpdatesOfOneRank) {
  std::vector<std::vector<double>> expected;
  {
    const FreshRank rank;
    Regression model;
    AdamW optimizer({model.w, model.b, model.c}, {.learning_rate = 0.1});
    for (int i = 0; i < 3; ++i, optimizer.zero_grad(), mark_step()) model.step(optimizer);
    expected = {model.w.to_vector<double>(), model.b.to_vector<double>(), model.c.to_vector<double>()};
  }
  on_ranks(4, [&](int) {
    const Mesh mesh({{"data", 2}, {"other", 2}});
    Regression model;
    mark_sharding(model.x, mesh, {"data", {}});
    mark_sharding(model.w, mesh, {"other", {}});
    AdamW optimizer({model.w, model.b, model.c}, {.learning_rate = 0.1});
    // Gradients stay alive after mark_step, as when zero_grad() starts the loop body.
    for (int i = 0; i < 3; ++i, mark_step()) {
      optimizer.zero_grad();
      model.step(optimizer);
    }
    EXPECT_EQ(model.w.grad().sharding()->str(), "{other+data,-}");
    const std::vector<std::vector<double>> values{model.w.to_vector<double>(), model.b.to_vector<double>(),
                                                  model.c.to_vector<double>()};
    for (std::size_t p = 0; p < values.size(); ++p)
      for (std::size_t i = 0; i < values[p].size(); ++i) EXPECT_NEAR(values[p][i], expected[p][i], 1e-12);
  });
}

TEST(ScheduleTest, LinearWarmsUpAndFallsToZero) {
  const Schedule schedule(ScheduleType::kLinear, 1.0, 4, 10);
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0);
  EXPECT_DOUBLE_EQ(schedule.rate(1), 0.25);
  EXPECT_DOUBLE_EQ(schedule.rate(4), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(7), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate(10), 0);
}

TEST(ScheduleTest, OtherSchedulesHaveTheShapeOfTheirName) {
  EXPECT_NEAR(Schedule(ScheduleType::kCosine, 2.0, 0, 8).rate(4), 1, 1e-15);
  EXPECT_DOUBLE_EQ(Schedule(ScheduleType::kConstant, 2.0, 5, 8).rate(0), 2);
  EXPECT_DOUBLE_EQ(Schedule(ScheduleType::kConstantWithWarmup, 2.0, 4, 8).rate(1), 0.5);
  EXPECT_DOUBLE_EQ(Schedule(ScheduleType::kConstantWithWarmup, 2.0, 4, 8).rate(100), 2);
  EXPECT_EQ(schedule_from_name("cosine"), ScheduleType::kCosine);
  EXPECT_THROW(schedule_from_name("cosinus"), Error);
}

}  // namespace
}  // namespace tessera::optim
