// SPDX-License-Identifier: Apache-2.0
// When programs run, which programs are compiled, and the meaning of tensor handles.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/on_ranks.h"
#include "frontend/tensors.h"
#include "support/temporary_folder.h"
#include "tessera/base/options.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tensor/tensor.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"
#include "tessera/optim/optimizer.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

TEST(Lazy, NothingRunsBeforeTheStepIsMarked) {
  const FreshRank rank;
  const Tensor x = Tensor::from<float>({3}, {1, 2, 3});
  const Tensor y = x * 2.0 + 1.0;
  EXPECT_EQ(lazy_counters().executions, 0);
  EXPECT_GT(lazy_counters().recorded_ops, 0);
  EXPECT_FALSE(y.is_materialized());
  mark_step();
  EXPECT_TRUE(y.is_materialized());
  EXPECT_EQ(lazy_counters().executions, 1);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(lazy_counters().executions, 1);
}

TEST(Lazy, StepsOfTheSameShapesCompileOnce) {
  const FreshRank rank;
  Tensor w = variable<double>({2, 3}, {1, 2, 3, 4, 5, 6});
  optim::SGD optimizer({w}, {.learning_rate = 0.1, .momentum = 0.9});
  std::int64_t compiled_before = 0;
  for (int step = 0; step < 5; ++step) {
    optimizer.set_learning_rate(0.1 / (step + 1));
    const Tensor x = Tensor::from<double>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8.0 + step});
    const Tensor loss = mean(square(dropout(matmul(x, w), 0.25)));
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    mark_step();
    if (step == 0) compiled_before = lazy_counters().compilations;
  }
  EXPECT_EQ(lazy_counters().compilations, compiled_before);
  EXPECT_EQ(lazy_counters().mark_steps, 5);
  const Tensor wider = Tensor::from<double>({5, 2}, std::vector<double>(10, 1));
  const Tensor loss = mean(square(dropout(matmul(wider, w), 0.25)));
  loss.backward();
  optimizer.step();
  optimizer.zero_grad();
  mark_step();
  EXPECT_EQ(lazy_counters().compilations, compiled_before + 1);
}

TEST(Lazy, TheSeedIsAnInputAndChangesTheMask) {
  const FreshRank rank;
  const auto masked = [] {
    const Tensor y = dropout(Tensor::ones(Type::array(DType::kF32, {64})), 0.5);
    mark_step();
    return y.to_vector<float>();
  };
  manual_seed(7);
  const auto first = masked();
  const auto second = masked();
  manual_seed(7);
  EXPECT_EQ(masked(), first);
  EXPECT_NE(first, second);
  manual_seed(8);
  EXPECT_NE(masked(), first);
  EXPECT_EQ(lazy_counters().compilations, 1);
}

TEST(Lazy, MicroBatchesDrawTheMaskOfTheCompleteBatch) {
  const FreshRank rank;
  const auto masked = [](std::int64_t rows) { return dropout(Tensor::ones(Type::array(DType::kF32, {rows, 5})), 0.5); };
  const auto complete_batches = [&] {
    const Tensor first = masked(6);
    const Tensor second = masked(6);
    mark_step();
    auto out = first.to_vector<float>();
    for (const float x : second.to_vector<float>()) out.push_back(x);
    return out;
  };
  manual_seed(3);
  std::vector<std::vector<float>> expected{complete_batches(), complete_batches()};
  manual_seed(3);
  for (const auto& step : expected) {
    std::vector<float> first, second;
    for (int part = 0; part < 3; ++part) {
      const Tensor a = [&] {
        const MicroBatch micro(2 * part);
        const Tensor x = masked(2);
        const Tensor y = masked(2);
        if (part < 2) mark_step();
        for (const float v : x.to_vector<float>()) first.push_back(v);
        for (const float v : y.to_vector<float>()) second.push_back(v);
        return x;
      }();
    }
    mark_step();
    first.insert(first.end(), second.begin(), second.end());
    EXPECT_EQ(first, step);
  }
  EXPECT_NE(expected[0], expected[1]);
}

TEST(Lazy, AValueMayBeReadBeforeBackward) {
  const FreshRank rank;
  const Tensor x = variable<double>({2}, {3, 4});
  const Tensor loss = sum(square(x));
  EXPECT_EQ(loss.item(), 25);
  loss.backward();
  mark_step();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{6, 8}));
}

TEST(Lazy, ReadingTwiceRunsOnce) {
  const FreshRank rank;
  const Tensor y = sum(Tensor::from<float>({2}, {1, 2}));
  EXPECT_EQ(y.item(), 3);
  EXPECT_EQ(y.item(), 3);
  EXPECT_EQ(y.str(), "tensor(3, f32[], device xla:0)");
  EXPECT_EQ(lazy_counters().executions, 1);
  EXPECT_EQ(lazy_counters().forced_reads, 1);
}

TEST(Lazy, BackwardAfterTheStepIsAnErrorWithTheRemedy) {
  const FreshRank rank;
  const Tensor x = variable<double>({1}, {3});
  const Tensor loss = sum(x);
  mark_step();
  try {
    loss.backward();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("call backward() before mark_step()"), std::string::npos) << error.what();
  }
}

TEST(Lazy, BackwardOfAValueFromAnEarlierStepNamesTheStep) {
  const FreshRank rank;
  const Tensor x = variable<double>({2}, {3, 4});
  const Tensor y = x * x;
  mark_step();
  const std::string error = testing::error_of([&] { sum(y).backward(); });
  EXPECT_TRUE(error.starts_with(
      "backward: f64[] was computed from no variable with requires_grad since the last mark_step(); f64[2], which it "
      "uses, was computed before mark_step() ended the step, so the ops that led to it are gone: call backward() "
      "before "
      "mark_step()\n"))
      << error;
}

TEST(Lazy, GradientsAddUpUntilTheyAreZeroed) {
  const FreshRank rank;
  Tensor x = variable<double>({2}, {1, 2});
  for (int i = 0; i < 3; ++i) {
    sum(x * 2.0).backward();
    mark_step();
  }
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{6, 6}));
  x.zero_grad();
  EXPECT_TRUE(x.grad().is_null());
}

TEST(Lazy, AssignChangesTheVariableForAllItsHandles) {
  const FreshRank rank;
  Tensor x = Tensor::from<float>({2}, {1, 2});
  const Tensor same = x;
  const Tensor before = x + 0.0;
  x.assign(x * 10.0);
  mark_step();
  EXPECT_EQ(same.to_vector<float>(), (std::vector<float>{10, 20}));
  EXPECT_EQ(before.to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(Lazy, AValueThatATensorStillHoldsIsNotOverwritten) {
  const FreshRank rank;
  Tensor w = Tensor::zeros(Type::array(DType::kF32, {2}));
  mark_step();
  const Tensor old = stored_tensor(w);
  for (int i = 1; i <= 3; ++i) {
    w.assign(w + 1.0);
    mark_step();
    EXPECT_EQ(w.to_vector<float>(), (std::vector<float>(2, static_cast<float>(i))));
    EXPECT_EQ(old.to_vector<float>(), (std::vector<float>{0, 0}));
  }
  EXPECT_FALSE(metrics().counter_value("DonationCopy").has_value());
}

TEST(Lazy, OnlyOneOfTwoResultsReusesTheMemoryOfAValue) {
  const FreshRank rank;
  Tensor w = Tensor::ones(Type::array(DType::kF32, {2}));
  mark_step();
  w.assign(w + 1.0);
  const Tensor between = stored_tensor(w);
  w.assign(w * 5.0);
  mark_step();
  EXPECT_EQ(between.to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{10, 10}));
}

TEST(Lazy, AStepThatRanOutOfMemoryMayBeRepeated) {
  const FreshRank rank;
  options().set("TESSERA_ASYNC", "0");
  Tensor w = Tensor::ones(Type::array(DType::kF32, {2}));
  mark_step();
  w.assign(w + 1.0);
  {
    const Tensor huge = Tensor::zeros(Type::array(DType::kF32, {std::int64_t{1} << 46}));
    EXPECT_NE(testing::error_of([] { mark_step(); }).find("out of memory: cannot allocate "), std::string::npos);
  }
  mark_step();
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(Lazy, NoGradientFlowsThroughDetach) {
  const FreshRank rank;
  const Tensor x = variable<double>({2}, {3, 5});
  sum(x * x.detach()).backward();
  mark_step();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{3, 5}));
}

TEST(Lazy, DeferredVariablesAreInitializedOnce) {
  const FreshRank rank;
  const Tensor a = Tensor::deferred(Type::array(DType::kF32, {1000}), nn::normal(1, 2), "a");
  const Tensor b = Tensor::deferred(Type::array(DType::kF32, {1000}), nn::normal(1, 2), "b");
  EXPECT_FALSE(a.is_materialized());
  const auto values = a.to_vector<float>();
  EXPECT_EQ(lazy_counters().executions, 1);
  EXPECT_NE(values, b.to_vector<float>());
  double total = 0, squares = 0;
  for (const float v : values) {
    total += v;
    squares += (v - 1.0) * (v - 1.0);
  }
  EXPECT_NEAR(total / 1000, 1, 0.2);
  EXPECT_NEAR(std::sqrt(squares / 1000), 2, 0.2);
}

TEST(Lazy, NumbersTakeTheTensorsElementTypeAndShapesBroadcast) {
  const FreshRank rank;
  const Tensor column = Tensor::from<float>({2, 1}, {1, 2});
  const Tensor row = Tensor::from<float>({3}, {10, 20, 30});
  const Tensor y = 1.0 - column * row;
  EXPECT_EQ(y.type(), Type::array(DType::kF32, {2, 3}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{-9, -19, -29, -19, -39, -59}));
}

void expect_error(const std::function<void()>& body, const std::vector<std::string>& parts) {
  try {
    body();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    for (const auto& part : parts) EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Lazy, LabelsOfFewBitsSelectTheRightClasses) {
  const FreshRank rank;
  std::vector<float> logits;
  for (int i = 0; i < 3 * 300; ++i) logits.push_back(0.01F * static_cast<float>((7 * i) % 31));
  const Tensor x = Tensor::from<float>({3, 300}, logits);
  const Tensor wide = Tensor::from<std::int32_t>({3}, {0, 44, 156});
  const double expected = cross_entropy(x, wide).item();
  for (const DType dtype : {DType::kU8, DType::kU16, DType::kS16, DType::kU32, DType::kS64})
    EXPECT_EQ(cross_entropy(x, wide.to(dtype)).item(), expected) << dtype_name(dtype);
}

TEST(LazyErrors, ShapeMismatchNamesShapesAndSourceLine) {
  const FreshRank rank;
  const Tensor a = Tensor::from<float>({2, 3}, std::vector<float>(6));
  const Tensor b = Tensor::from<float>({4, 5}, std::vector<float>(20));
  const int line = __LINE__ + 1;
  expect_error([&] { matmul(a, b); }, {"matmul", "f32[2,3]", "f32[4,5]", fmt::format("lazy_test.cpp:{}", line)});
  const int next = __LINE__ + 1;
  expect_error([&] { a + b; }, {"add: shapes [2,3] and [4,5] do not broadcast", fmt::format("lazy_test.cpp:{}", next)});
  expect_error([&] { a + Tensor::from<double>({1}, {1}); }, {"operands have element types f32 and f64"});
}

}  // namespace
}  // namespace tessera
