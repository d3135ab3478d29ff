// SPDX-License-Identifier: Apache-2.0
// Later calls of a compiled function do the same as lazy steps.
#include "tessera/frontend/compile/compiled_function.h"
#include "frontend/tensors.h"

#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/layers.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

using testing::error_of;
using Tensors = std::vector<Tensor>;

// Two layers with dropout, trained by AdamW with a changing learning rate.
std::vector<double> train(bool compiled, int steps, std::int64_t* recorded = nullptr, bool jit_compile = true) {
  manual_seed(7);
  nn::Linear first(3, 8);
  nn::Linear second(8, 1);
  auto parameters = first.parameters();
  for (const auto& parameter : second.parameters()) parameters.push_back(parameter);
  optim::AdamW optimizer(parameters, {.learning_rate = 0.05});
  const auto body = [&](const Tensors& in) {
    const Tensor loss = mean(square(second(dropout(relu(first(in[0])), 0.25)) - in[1]));
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return Tensors{loss};
  };
  CompiledFunction step = compile(body, {.jit_compile = jit_compile});
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) {
    optimizer.set_learning_rate(0.05 / (1 + i));
    const float x = static_cast<float>(i % 4);
    const Tensor input = Tensor::from<float>({2, 3}, {x, 1, 2, 3, x, 4});
    const Tensor target = Tensor::from<float>({2, 1}, {1, x});
    if (compiled) {
      out.push_back(step({input, target}).front().item());
    } else {
      const Tensor loss = body({input, target}).front();
      mark_step();
      out.push_back(loss.item());
    }
    if (i == 0 && recorded != nullptr) *recorded = lazy_counters().recorded_ops;
  }
  EXPECT_EQ(optimizer.step_count(), steps);
  return out;
}

TEST(CompiledFunction, GivesTheResultsOfLazySteps) {
  constexpr int kSteps = 8;
  std::vector<double> lazy;
  {
    const FreshRank rank;
    lazy = train(false, kSteps);
  }
  const FreshRank rank;
  std::int64_t recorded = 0;
  EXPECT_EQ(train(true, kSteps, &recorded), lazy);
  EXPECT_EQ(lazy_counters().recorded_ops, recorded) << "later calls record nothing";
  EXPECT_EQ(lazy_counters().mark_steps, kSteps);
}

TEST(CompiledFunction, WithoutJitCompileEachCallIsTracedWithTheSameResults) {
  constexpr int kSteps = 5;
  std::vector<double> compiled;
  {
    const FreshRank rank;
    compiled = train(true, kSteps);
  }
  const FreshRank rank;
  std::int64_t recorded = 0;
  EXPECT_EQ(train(true, kSteps, &recorded, false), compiled);
  EXPECT_EQ(lazy_counters().recorded_ops, kSteps * recorded) << "every call traces as many ops";
}

TEST(CompiledFunction, InAnotherOneTheInnerOneIsPartOfTheOuterProgram) {
  const FreshRank rank;
  int traced = 0;
  CompiledFunction inner = compile([&](const Tensors& in) {
    ++traced;
    return Tensors{in[0] * 3.0};
  });
  CompiledFunction outer = compile([&](const Tensors& in) { return Tensors{inner({in[0] + 1.0})[0] - in[0]}; });
  for (const float x : {1.0F, 2.0F, 5.0F})
    EXPECT_EQ(outer({Tensor::from<float>({1}, {x})})[0].to_vector<float>(), (std::vector<float>{3 * (x + 1) - x}));
  EXPECT_EQ(traced, 1);
  EXPECT_EQ(inner.form_count(), 0);
  EXPECT_EQ(outer.form_count(), 1);
  EXPECT_EQ(inner({Tensor::from<float>({1}, {4})})[0].to_vector<float>(), (std::vector<float>{12}));
  EXPECT_EQ(inner.form_count(), 1);
}

TEST(CompiledFunction, IsTracedAgainOnlyForOtherTypes) {
  const FreshRank rank;
  int traced = 0;
  CompiledFunction twice = compile([&](const Tensors& in) {
    ++traced;
    return Tensors{in[0] * 2.0, in[0]};
  });
  EXPECT_EQ(twice({Tensor::from<float>({2}, {1, 2})})[0].to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(twice({Tensor::from<float>({2}, {3, 4})})[0].to_vector<float>(), (std::vector<float>{6, 8}));
  EXPECT_EQ(traced, 1);
  EXPECT_EQ(twice({Tensor::from<float>({1}, {5})})[0].to_vector<float>(), (std::vector<float>{10}));
  EXPECT_EQ(twice({Tensor::from<float>({2}, {7, 8})})[1].to_vector<float>(), (std::vector<float>{7, 8}))
      << "an argument";
  EXPECT_EQ(traced, 2);
}

TEST(CompiledFunction, UsesTheValuesOfVariablesAtTheCall) {
  const FreshRank rank;
  Tensor w = variable<float>({2}, {1, 2});
  CompiledFunction grow = compile([&](const Tensors& in) {
    w.assign(stored_tensor(w) + in[0]);
    return Tensors{};
  });
  const Tensor one = Tensor::from<float>({2}, {1, 1});
  grow({one});
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{2, 3}));
  w.assign(Tensor::from<float>({2}, {10, 20}));
  grow({one});
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{11, 21}));
  const Tensor kept = stored_tensor(w);
  const Tensor doubled = w * 2.0;  // traced before the call, so it uses the old value
  w.assign(stored_tensor(w) + 100.0);
  grow({one});
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{112, 122}));
  EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{11, 21})) << "who holds a value keeps it";
  EXPECT_EQ(doubled.to_vector<float>(), (std::vector<float>{22, 42}));
}

TEST(CompiledFunction, AResultMayBeReturnedAndAssigned) {
  const FreshRank rank;
  Tensor w = variable<float>({1}, {1});
  CompiledFunction grow = compile([&](const Tensors&) {
    w.assign(stored_tensor(w) * 3.0);
    return Tensors{stored_tensor(w)};
  });
  const Tensor three = grow({}).front();
  const Tensor nine = grow({}).front();
  const Tensor more = grow({}).front();
  EXPECT_EQ(three.item(), 3);
  EXPECT_EQ(nine.item(), 9);
  EXPECT_EQ(more.item(), 27);
  EXPECT_EQ(w.item(), 27);
}

TEST(CompiledFunction, ScalarsOfAFunctionAreEvaluatedAtEachCall) {
  const FreshRank rank;
  double rate = 2;
  CompiledFunction scaled =
      compile([&](const Tensors& in) { return Tensors{in[0] * Tensor::scalar(DType::kF32, [&] { return rate; })}; });
  const Tensor x = Tensor::from<float>({1}, {5});
  EXPECT_EQ(scaled({x}).front().item(), 10);
  rate = 3;
  EXPECT_EQ(scaled({x}).front().item(), 15);
}

TEST(CompiledFunction, KeepsShardings) {
  on_ranks(2, [](int rank) {
    const Mesh mesh({{"data", 2}});
    set_default_mesh(mesh);
    Tensor w = variable<float>({4}, {1, 2, 3, 4});
    mark_sharding(w, mesh, {"data"});
    CompiledFunction grow = compile([&](const Tensors& in) {
      mark_sharding(in[0], mesh, {"data"});
      w.assign(stored_tensor(w) + in[0]);
      return Tensors{sum(stored_tensor(w))};
    });
    for (int i = 1; i <= 3; ++i) {
      const Tensor total = grow({Tensor::from<float>({4}, {1, 1, 1, 1})}).front();
      EXPECT_EQ(total.item(), 10 + 4 * i);
    }
    EXPECT_EQ(w.local_shard(),
              Literal::from<float>({2}, rank == 0 ? std::vector<float>{4, 5} : std::vector<float>{6, 7}));
  });
}

TEST(CompiledFunction, ErrorsNameTheMistake) {
  const FreshRank rank;
  Tensor w = variable<float>({1}, {1});
  w.set_name("w");
  const Tensor x = Tensor::from<float>({1}, {5});
  const auto message = [&](const CompiledFunction::Function& function) {
    CompiledFunction compiled = compile(function);
    const std::string out = error_of([&] { compiled({x}); });
    mark_step();
    w.zero_grad();
    return out.substr(0, out.find('\n'));  // without the location
  };
  EXPECT_EQ(
      message([&](const Tensors&) {
        const Tensor y = w * 2.0;
        mark_step();
        return Tensors{y};
      }),
      "compile: the function calls mark_step(); remove it, because each call of the compiled function ends the step");
  EXPECT_EQ(message([&](const Tensors&) {
              const Tensor y = w * 2.0;
              return Tensors{y * y.item()};
            }),
            "compile: the function reads a value that it computes; return the tensor and read it after the call");
  EXPECT_EQ(message([&](const Tensors& in) {
              const Tensor y = sum(w * in[0]);
              y.backward();
              return Tensors{y};
            }),
            "compile: the gradient of w outlives the function; call zero_grad() at the end of the function");
  Tensor kept;
  EXPECT_EQ(message([&](const Tensors& in) {
              kept = w * in[0];
              return Tensors{kept * 2.0};
            }),
            "compile: f32[1] outlives the function; return it or assign it to a variable");
  EXPECT_EQ(message([&](const Tensors&) { return Tensors{}; }),
            "compile: the function returns no tensor and assigns no variable; return the tensors that it computes");
  EXPECT_EQ(message([&](const Tensors& in) {
              return Tensors{in[0], Tensor()};
            }),
            "compile: result 1 of the function is a null tensor, which has no value");
}

// Returns the error of the first call of a compiled function.
std::string error_of_first_call(const CompiledFunction::Function& function, const Tensor& x) {
  CompiledFunction compiled = compile(function);
  return error_of([&] { compiled({x}); });
}

TEST(CompiledFunction, ReadingDataFromOutsideIsAnError) {
  const FreshRank rank;
  const Tensor x = Tensor::from<float>({1}, {5});
  Tensor w = variable<float>({1}, {1});
  w.set_name("w");
  const std::string argument =
      error_of_first_call([](const Tensors& in) { return Tensors{in[0].item() > 0 ? in[0] * 2.0 : in[0]}; }, x);
  EXPECT_NE(argument.find("reads the value of an argument f32[1]"), std::string::npos) << argument;
  EXPECT_NE(argument.find("cond() or where()"), std::string::npos) << argument;
  EXPECT_NE(argument.find("compiled_function_test.cpp:"), std::string::npos) << argument;
  const auto reads_variable = [&](const Tensors& in) { return Tensors{in[0] * w.to_vector<float>()[0]}; };
  const std::string captured = error_of_first_call(reads_variable, x);
  EXPECT_NE(captured.find("reads the value of w f32[1]"), std::string::npos) << captured;
  const auto reads_after_use = [&](const Tensors& in) {
    const Tensor y = in[0] * w;
    return Tensors{y * w.item()};
  };
  EXPECT_NE(error_of_first_call(reads_after_use, x).find("reads the value of w"), std::string::npos);
  CompiledFunction scaled = compile([&](const Tensors& in) { return Tensors{in[0] * w}; });
  EXPECT_EQ(scaled({x})[0].item(), 5) << "a failed call has no effect";
}

TEST(CompiledFunction, MayReadDataThatItMakesItself) {
  const FreshRank rank;
  CompiledFunction f = compile([](const Tensors& in) {
    const Tensor three = Tensor::from<float>({1}, {3});
    return Tensors{in[0] * three.item()};
  });
  EXPECT_EQ(f({Tensor::from<float>({1}, {2})})[0].item(), 6);
  EXPECT_EQ(f({Tensor::from<float>({1}, {5})})[0].item(), 15);
}

TEST(CompiledFunction, WithoutFullGraphItReadsArgumentsAtEachCall) {
  const FreshRank rank;
  const auto body = [](const Tensors& in) { return Tensors{in[0].item() > 0 ? in[0] * 2.0 : in[0] * 3.0}; };
  CompiledFunction f = compile(body, {.full_graph = false});
  EXPECT_EQ(f({Tensor::from<float>({1}, {1})})[0].item(), 2);
  EXPECT_EQ(f({Tensor::from<float>({1}, {-1})})[0].item(), -3);
}

}  // namespace
}  // namespace tessera
