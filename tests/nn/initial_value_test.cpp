// SPDX-License-Identifier: Apache-2.0
// Parameters with traced initial values: all steps run one program.
#include <gtest/gtest.h>

#include <memory>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/control/control_flow.h"
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

// A step that makes its model and optimizer in the first call.
class LazyTraining {
 public:
  std::vector<Tensor> operator()(const std::vector<Tensor>& in) {
    if (!model_) {
      model_ = std::make_unique<Weighted>(random_uniform(Type::array(DType::kF32, {3})) * 0.5 + ones({3}));
      optimizer_ = std::make_unique<optim::AdamW>(model_->parameters(), optim::AdamWOptions{.learning_rate = 0.1});
    }
    const Tensor loss = sum(square((*model_)(in[0])));
    loss.backward();
    optimizer_->step();
    optimizer_->zero_grad();
    return {loss};
  }

 private:
  std::unique_ptr<Weighted> model_;
  std::unique_ptr<optim::AdamW> optimizer_;
};

std::vector<double> losses(bool compiled) {
  const FreshRank rank;
  manual_seed(5);
  LazyTraining training;
  CompiledFunction step =
      compile([&](const std::vector<Tensor>& in) { return training(in); }, {.jit_compile = compiled});
  std::vector<double> out;
  for (int i = 0; i < 4; ++i)
    out.push_back(step({Tensor::from<float>({3}, {1, 2, static_cast<float>(i)})}).front().item());
  return out;
}

TEST(InitialValue, OfAModuleThatACompiledFunctionMakesIsComputedOnce) { EXPECT_EQ(losses(true), losses(false)); }

TEST(InitialValue, OfAModuleThatALoopMakesIsComputedOnce) {
  const FreshRank rank;
  std::unique_ptr<Weighted> model;
  const auto round = [&](const Tensor& c, const Tensor& x) {
    if (!model) model = std::make_unique<Weighted>(ones({3}) * 2.0);
    return std::pair((*model)(c) + x, c);
  };
  for (int step = 0; step < 2; ++step) {
    const auto [last, ys] = scan(round, ones({3}), ones({2, 3}));  // last = w (w + 1) + 1
    model->zero_grad();
    sum(last).backward();
    EXPECT_EQ(model->weight.grad().to_vector<float>(), (std::vector<float>{5, 5, 5})) << "step " << step;
    mark_step();
  }
}

std::string error_of_call(const CompiledFunction::Function& function) {
  CompiledFunction step = compile(function);
  const std::string error = testing::error_of([&] { (void)step({Tensor::from<float>({3}, {1, 2, 3})}); });
  return error.substr(0, error.find('\n'));
}

TEST(InitialValue, ThatEveryCallWouldComputeIsAnError) {
  const FreshRank rank;
  std::unique_ptr<Weighted> model;
  EXPECT_EQ(error_of_call([&](const std::vector<Tensor>& in) {
              model = std::make_unique<Weighted>(in[0] * 2.0);
              return std::vector<Tensor>{(*model)(in[0])};
            }),
            "the initial value of weight depends on other values of the trace, and the compiled function would compute "
            "it again in every call: register it outside of the function, or compute its value only from numbers");
}

TEST(InitialValue, OfAModuleThatTheFunctionDoesNotKeepIsAnError) {
  const FreshRank rank;
  EXPECT_EQ(error_of_call([&](const std::vector<Tensor>& in) {
              Weighted model(ones({3}) * 2.0);
              return std::vector<Tensor>{model(in[0])};
            }),
            "compile: the function uses weight, which no tensor refers to any more; if the function makes a module, "
            "keep this module for the later calls");
}

}  // namespace
}  // namespace tessera::nn
