// SPDX-License-Identifier: Apache-2.0
// compile() of functions of trees, its options, and host regions.
#include "frontend/tensors.h"
#include "support/error_of.h"
#include "tessera/frontend/compile/typed_function.h"

#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "tessera/frontend/control/host_region.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/optim/optimizer.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

using testing::error_of;

struct Batch {
  Tensor x;
  std::map<std::string, Tensor> extra;
  static void fields(auto& self, auto&& visit) {
    visit("x", self.x);
    visit("extra", self.extra);
  }
};
struct Metrics {
  Tensor loss;
  std::vector<Tensor> parts;
  int power = 0;
  static void fields(auto& self, auto&& visit) {
    visit("loss", self.loss);
    visit("parts", self.parts);
    visit("power", self.power);
  }
};

TEST(TypedCompile, TakesAndReturnsStructsVectorsMapsAndNumbers) {
  const FreshRank rank;
  int traces = 0;
  auto step = compile([&](const Batch& batch, int power, const std::pair<Tensor, double>& scaled) {
    ++traces;
    Metrics out;
    Tensor y = batch.x;
    for (int i = 1; i < power; ++i) y = y * batch.x;
    for (const auto& [name, value] : batch.extra) out.parts.push_back(value + y);
    out.loss = sum(y) * scaled.first * scaled.second;
    out.power = power;
    return out;
  });
  const Tensor two = Tensor::from<double>({}, {2});
  for (const double shift : {0.0, 1.0, 2.0}) {
    const Metrics m = step(Batch{f64s({1 + shift, 2}), {{"a", f64s({10, 20})}}}, 2, std::pair(two, 3.0));
    EXPECT_EQ(m.loss.item(), 6 * ((1 + shift) * (1 + shift) + 4));
    ASSERT_EQ(m.parts.size(), 1U);
    EXPECT_EQ(m.parts[0].to_vector<double>(), (std::vector<double>{10 + (1 + shift) * (1 + shift), 24}));
    EXPECT_EQ(m.power, 2);
  }
  EXPECT_EQ(traces, 1);
  EXPECT_EQ(step(Batch{f64s({1, 2}), {}}, 2, std::pair(two, 3.0)).parts.size(), 0U);    // another map
  EXPECT_EQ(step(Batch{f64s({1, 2}), {}}, 3, std::pair(two, 3.0)).loss.item(), 6 * 9);  // another number
  EXPECT_EQ(step(Batch{f64s({1, 2}), {}}, 3, std::pair(two, 3.5)).loss.item(), 7 * 9);
  EXPECT_EQ(step(Batch{f64s({1, 2, 3}), {}}, 3, std::pair(two, 3.5)).loss.item(), 7 * 36);  // another shape
  EXPECT_EQ(traces, 5);
  EXPECT_EQ(step(Batch{f64s({2, 2}), {}}, 2, std::pair(two, 3.0)).power, 2);
  EXPECT_EQ(traces, 5);
  EXPECT_EQ(step.form_count(), 5);
}

TEST(TypedCompile, TrainsLikeTheUncompiledFunction) {
  const FreshRank rank;
  const auto train = [](bool compiled) {
    Tensor w = f64s({1, -2, 3});
    w.set_requires_grad();
    optim::SGD optimizer({w}, {.learning_rate = 0.1});
    const auto body = [&](const Tensor& x, double scale) {
      const Tensor loss = sum(square(x * w)) * scale;
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      return loss;
    };
    auto step = compile(body);
    std::vector<double> out;
    for (int i = 0; i < 4; ++i) {
      const Tensor loss = compiled ? step(f64s({1.0 * i, 2, 1}), 0.5) : body(f64s({1.0 * i, 2, 1}), 0.5);
      if (!compiled) mark_step();
      out.push_back(loss.item());
    }
    return out;
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(TypedCompile, AFunctionWithoutResultAssignsVariables) {
  const FreshRank rank;
  Tensor total = f64s({0, 0});
  auto add = compile([&](const Tensor& x) { total.assign(total + x); });
  add(f64s({1, 2}));
  add(f64s({3, 4}));
  EXPECT_EQ(total.to_vector<double>(), (std::vector<double>{4, 6}));
}

TEST(TypedCompile, MayBeMovedAfterACall) {
  const FreshRank rank;
  auto first = compile([](const Tensor& x) { return x * 2.0; });
  EXPECT_EQ(first(f64s({1, 2})).to_vector<double>(), (std::vector<double>{2, 4}));
  auto second = std::move(first);
  EXPECT_EQ(second(f64s({3, 2})).to_vector<double>(), (std::vector<double>{6, 4}));
  EXPECT_EQ(second(f64s({3})).to_vector<double>(), (std::vector<double>{6}));
}

TEST(TypedCompile, RefusesMoreDifferentGraphsThanAllowed) {
  const FreshRank rank;
  auto by_shape = compile([](const Tensor& x) { return sum(x); }, {.name = "evaluate", .max_different_graphs = 2});
  by_shape(f64s({1}));
  by_shape(f64s({1, 2}));
  EXPECT_EQ(by_shape(f64s({5, 6})).item(), 11);
  EXPECT_EQ(error_of([&] {
              by_shape(f64s({1, 2, 3}));
            }),
            "compile: evaluate was called with arguments (f64[3]) that fit none of its 2 programs, and "
            "max_different_graphs is 2; the last program is for (f64[2])");
  auto by_number =
      compile([](const Tensor& x, int n) { return sum(x) * static_cast<double>(n); }, {.max_different_graphs = 1});
  by_number(f64s({1}), 3);
  EXPECT_EQ(error_of([&] { by_number(f64s({1}), 4); }),
            "compile: the function was called with arguments (f64[1], 4) that fit none of its 1 programs, and "
            "max_different_graphs is 1; the last program is for (f64[1], 3)");
}

TEST(TypedCompile, CountsTheProgramsOfAllStructuresTogether) {
  const FreshRank rank;
  auto f = compile([](const Tensor& x, int n) { return x * static_cast<double>(n); }, {.max_different_graphs = 2});
  f(f64s({1}), 1);
  f(f64s({1}), 2);
  EXPECT_EQ(f(f64s({5}), 1).item(), 5);
  EXPECT_EQ(error_of([&] {
              f(f64s({1, 2}), 1);
            }),
            "compile: the function was called with arguments (f64[2], 1) that fit none of its 2 programs, and "
            "max_different_graphs is 2; the last program is for (f64[1], 2)");
}

// ---- functions ------------------------------------------------------------------------------------------------------

TEST(TypedCompile, InAnotherOneTheInnerOneIsPartOfTheOuterProgram) {
  const FreshRank rank;
  auto inner = compile([](const Tensor& x, double scale) { return std::pair(x * scale, 3); });
  auto middle = compile([&](const Tensor& x) { return inner(x + 1.0, 2.0).first; });
  auto outer = compile([&](const Tensor& x) { return middle(x * 1.0) + 1.0; });
  EXPECT_EQ(outer(f64s({1, 2})).to_vector<double>(), (std::vector<double>{5, 7}));
  EXPECT_EQ(outer(f64s({3, 4})).to_vector<double>(), (std::vector<double>{9, 11}));
  EXPECT_EQ(inner(f64s({1}), 2.0).first.item(), 2);  // also compiled on its own
  EXPECT_EQ(outer.form_count(), 1);
  EXPECT_EQ(inner.form_count(), 1);
}

TEST(TypedCompile, TakesGenericLambdas) {
  const FreshRank rank;
  auto twice = compile([](const auto& x) { return x * 2.0; });
  EXPECT_EQ(twice(f64s({1, 2})).to_vector<double>(), (std::vector<double>{2, 4}));
  const auto sum_of = [](const auto& x) { return std::vector<Tensor>{x[0] + x[1]}; };
  auto of_list = compile(sum_of);
  EXPECT_EQ(of_list({f64s({1}), f64s({2})}).front().item(), 3);
  CompiledFunction of_vector = compile(sum_of);
  EXPECT_EQ(of_vector({f64s({1}), f64s({4})}).front().item(), 5);
}

TEST(TypedCompile, AFunctionMayReturnItsArgument) {
  const FreshRank rank;
  int traces = 0;
  auto same = compile([&](const Tensor& x) {
    ++traces;
    return x;
  });
  EXPECT_EQ(same(f64s({1, 2})).to_vector<double>(), (std::vector<double>{1, 2}));
  EXPECT_EQ(same(f64s({3, 4})).to_vector<double>(), (std::vector<double>{3, 4}));
  EXPECT_EQ(traces, 1);
  auto nothing = compile([](const Tensor& x) { (void)(x * 2.0); }, {.name = "train"});
  EXPECT_EQ(error_of([&] { nothing(f64s({1})); }),
            "compile: train returns no tensor and assigns no variable; return the tensors that it computes");
}

TEST(TypedCompile, NullTensorsStayNull) {
  const FreshRank rank;
  auto step = compile([](const Metrics& m) {
    Metrics out;
    out.parts.push_back(m.loss.is_null() ? m.parts[0] * 2.0 : m.parts[0] * m.loss);
    return out;
  });
  for (const double number : {1.0, 2.0}) {
    const Metrics out = step(Metrics{{}, {f64s({number})}});
    EXPECT_TRUE(out.loss.is_null());
    EXPECT_EQ(out.parts[0].item(), 2 * number);
  }
  EXPECT_EQ(step(Metrics{f64s({5}), {f64s({3})}}).parts[0].item(), 15);
  EXPECT_EQ(step.form_count(), 2);
  auto list = compile([](const std::vector<Tensor>& x) { return x; });
  EXPECT_TRUE(error_of([&] {
                list({f64s({1}), Tensor()});
              })
                  .starts_with("compile: argument 1 of the function is a null tensor, which has no value\n  at   "
                               "typed_compile_test.cpp:"));
}

TEST(TypedCompile, ItsNameIsInReports) {
  const FreshRank rank;
  auto step = compile([](const Tensor& x) { return x + 1.0; }, {.name = "validation"});
  step(f64s({1}));
  EXPECT_TRUE(compiled_programs().back().reason.starts_with("validation at typed_compile_test.cpp"))
      << compiled_programs().back().reason;
}

TEST(TypedCompile, WithoutFullGraphAFunctionMayReadValues) {
  const FreshRank rank;
  metrics().clear_all();
  const auto body = [](const Tensor& x) {
    const Tensor y = sum(x * x);
    return y.item() > 10 ? y * 2.0 : y;
  };
  auto strict = compile(body);
  EXPECT_NE(error_of([&] {
              strict(f64s({1, 2}));
            }).find("the function reads a value that it computes"),
            std::string::npos);
  auto loose = compile(body, {.full_graph = false});
  EXPECT_EQ(loose(f64s({1, 2})).item(), 5);
  EXPECT_EQ(loose(f64s({3, 2})).item(), 26);
  EXPECT_EQ(metrics().counter_value("GraphBreak"), 2);
}

// ---- host regions ---------------------------------------------------------------------------------------------------

// Sorts on the host.
Tensor sorted(const Tensor& x) {
  return host_region(
      "sort",
      [](const Tensor& on_host) {
        auto values = on_host.to_vector<double>();
        std::sort(values.begin(), values.end());
        return f64s(values);
      },
      x);
}

TEST(HostRegion, RunsInTheMiddleOfAStepAndIsCounted) {
  const FreshRank rank;
  metrics().clear_all();
  const Tensor y = sorted(f64s({3, 1, 2}) * 2.0) + 1.0;
  mark_step();
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{3, 5, 7}));
  EXPECT_EQ(metrics().counter_value("fallback::sort"), 1);
  EXPECT_EQ(executed_fallback_ops(), std::vector<std::string>{"fallback::sort"});
}

TEST(HostRegion, SeesCompleteValuesOnEveryRank) {
  on_ranks(3, [](int) {
    const Mesh mesh = Mesh::parse("data=3");
    set_default_mesh(mesh);
    const Tensor x = f64s({5, 4, 3, 2, 1});
    mark_sharding(x, mesh, {"data"});
    const Tensor y = sorted(x * 2.0) + x;
    mark_step();
    EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{7, 8, 9, 10, 11}));
  });
}

TEST(HostRegion, ItsGradientIsAnErrorWithoutABackwardFunction) {
  const FreshRank rank;
  Tensor x = f64s({3, 1, 2});
  x.set_requires_grad();
  const Tensor loss = sum(sorted(x * 2.0));
  EXPECT_NE(error_of([&] { loss.backward(); }).find("host_region sort has no gradient: give it a backward function"),
            std::string::npos);
  const Tensor other = sum(sorted(stop_gradient(x)) * x);
  other.backward();
  mark_step();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 2, 3}));
}

TEST(HostRegion, HasTheGradientOfItsBackwardFunction) {
  const FreshRank rank;
  Tensor x = f64s({3, 1, 2});
  x.set_requires_grad();
  const auto cube = [](const Tensor& v) {
    std::vector<double> out;
    for (const double one : v.to_vector<double>()) out.push_back(one * one * one);
    return f64s(out);
  };
  const auto backward = [](const Tensor& v, const Tensor&, const Tensor& d) { return d * v * v * 3.0; };
  const Tensor y = host_region("cube", cube, x * 2.0, backward);
  sum(y).backward();
  mark_step();
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{216, 8, 64}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{216, 24, 96}));
}

TEST(HostRegion, BreaksACompiledFunctionOnlyWithoutFullGraph) {
  const FreshRank rank;
  const auto body = [](const Tensor& x) { return sorted(x) * 2.0; };
  auto strict = compile(body);
  EXPECT_NE(error_of([&] {
              strict(f64s({2, 1}));
            }).find("the function contains the host_region sort"),
            std::string::npos);
  auto loose = compile(body, {.full_graph = false});
  EXPECT_EQ(loose(f64s({2, 1})).to_vector<double>(), (std::vector<double>{2, 4}));
  EXPECT_EQ(loose(f64s({9, 1})).to_vector<double>(), (std::vector<double>{2, 18}));
}

}  // namespace
}  // namespace tessera
