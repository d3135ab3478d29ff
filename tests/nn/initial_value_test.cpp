// SPDX-License-Identifier: Apache-2.0
// Parameters with traced initial values: all steps run one program.
#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/creation.h"
#include "tessera/frontend/tensor/random.h"
#include "tessera/nn/layers.h"
#include "tessera/optim/optimizer.h"

namespace tessera::nn {
namespace {

class Weighted : public Callable<Weighted> {
 public:
  explicit Weighted(const Tensor& initial) { weight = register_parameter("weight", initial); }
  Tensor forward(const Tensor& x) { return x * weight; }
  Tensor weight;
};

// Trains for `steps` steps; returns the number of programs that were compiled for steps.
int step_programs(Weighted& model, int steps) {
  optim::AdamW optimizer(model.parameters(), {.learning_rate = 0.1});
  for (int i = 0; i < steps; ++i) {
    sum(square(model(Tensor::from<float>({3}, {1, 2, static_cast<float>(i)})))).backward();
    optimizer.step();
    optimizer.zero_grad();
    mark_step();
  }
  int out = 0;
  for (const CompiledProgram& program : compiled_programs()) out += program.reason.starts_with("mark_step") ? 1 : 0;
  return out;
}

TEST(InitialValue, OfOpsIsNoPartOfTheFirstStep) {
  const FreshRank rank;
  Weighted model(ones({3}) * 2.0);
  EXPECT_FALSE(model.weight.is_materialized());
  EXPECT_EQ(step_programs(model, 3), 1);
}

class Pair : public Callable<Pair> {
 public:
  Pair() {
    first = register_parameter("first", ones({2}) * 3.0);
    second = register_parameter("second", first * 0.5);
  }
  Tensor forward(const Tensor& x) { return sum(first * second * x); }
  Tensor first, second;
};

TEST(InitialValue, OfAnotherParameterHasNoGradientForIt) {
  const FreshRank rank;
  Pair model;
  for (int step = 0; step < 2; ++step) {
    model.first.zero_grad();
    model(ones({2})).backward();
    EXPECT_EQ(model.first.grad().to_vector<float>(), (std::vector<float>{1.5, 1.5})) << "step " << step;
    mark_step();
  }
}

TEST(InitialValue, IsTheTracedValue) {
  const auto values = [](bool registers) {
    const FreshRank rank;
    manual_seed(11);
    const Tensor initial = random_uniform(Type::array(DType::kF32, {5}), std::source_location::current()) * 0.5;
    if (!registers) return initial.to_vector<float>();
    return Weighted(initial).weight.to_vector<float>();
  };
  EXPECT_EQ(values(true), values(false));
}

TEST(InitialValue, MayDependOnDataOrHaveUses) {
  const FreshRank rank;
  Weighted of_data(Tensor::from<float>({3}, {1, 2, 3}) + 1.0);
  EXPECT_EQ(of_data.weight.to_vector<float>(), (std::vector<float>{2, 3, 4}));
  const Tensor initial = ones({3});
  const Tensor before = initial * 3.0;
  Weighted used(initial);
  const Tensor loss = sum(before * used.weight);  // the gradient is 2 * 3
  loss.backward();
  EXPECT_EQ(used.weight.grad().to_vector<float>(), (std::vector<float>{6, 6, 6}));
}

}  // namespace
}  // namespace tessera::nn
