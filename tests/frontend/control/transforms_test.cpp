// SPDX-License-Identifier: Apache-2.0
// value_and_grad, grad, vjp, jvp, stop_gradient, custom_gradient, checkpoint.
#include "tessera/frontend/control/transforms.h"
#include "frontend/tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "frontend/control/finite_gradients.h"
#include "frontend/on_ranks.h"
#include "tessera/base/text.h"
#include "tessera/frontend/compile/typed_function.h"
#include "tessera/frontend/control/checkpoint.h"
#include "tessera/frontend/control/control_flow.h"
#include "tessera/frontend/control/vmap.h"
#include "tessera/frontend/sharding/shard_map.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::expect_equal_functions;
using testing::expect_finite_differences;
using testing::seeded_values;

double number(const Tensor& x) { return x.item(); }

struct Weights {
  Tensor scale;
  std::map<std::string, Tensor> shifts;
  int power = 2;
  static void fields(auto& self, auto&& visit) {
    visit("scale", self.scale);
    visit("shifts", self.shifts);
    visit("power", self.power);
  }
};

TEST(ValueAndGrad, ReturnsAGradientWithTheStructureOfTheArgument) {
  const FreshRank rank;
  const Weights weights{f64s({2, 3}), {{"a", f64s({1, 1})}, {"b", f64s({5, 7})}}, 2};
  const auto loss = [](const Weights& w, const Tensor& x) {
    return sum(pow(x * w.scale, static_cast<double>(w.power)) + w.shifts.at("a") * x);
  };
  const auto [value, d] = value_and_grad(loss)(weights, f64s({3, -1}));
  mark_step();
  EXPECT_EQ(number(value), 36 + 9 + 3 - 1);
  EXPECT_EQ(d.scale.to_vector<double>(), (std::vector<double>{2 * 9 * 2, 2 * 3}));
  EXPECT_EQ(d.shifts.at("a").to_vector<double>(), (std::vector<double>{3, -1}));
  EXPECT_EQ(d.shifts.at("b").to_vector<double>(), (std::vector<double>{0, 0}));
  EXPECT_EQ(d.power, 2);
}

TEST(ValueAndGrad, LeavesTheGradientsOfVariablesAlone) {
  const FreshRank rank;
  Tensor w = f64s({2, 3});
  w.set_requires_grad();
  const Tensor d = grad([&](const Tensor& x) { return sum(x * w * x); })(f64s({1, 2}));
  mark_step();
  EXPECT_EQ(d.to_vector<double>(), (std::vector<double>{4, 12}));
  EXPECT_TRUE(w.grad().is_null());
}

TEST(Grad, OfGradIsTheSecondDerivative) {
  const FreshRank rank;
  const auto f = [](const Tensor& x) { return sin(x) * x; };
  const Tensor second = grad(grad(f))(Tensor::from<double>({}, {0.7}));
  mark_step();
  EXPECT_NEAR(number(second), 2 * std::cos(0.7) - 0.7 * std::sin(0.7), 1e-12);
}

TEST(Grad, OfAFunctionWithALoopIsDifferentiableAgain) {
  const FreshRank rank;
  const auto f = [](const Tensor& x) {  // x^8
    return fori_loop(
        0, 3, [](const Tensor&, const Tensor& v) { return v * v; }, x);
  };
  const Tensor second = grad(grad(f))(Tensor::from<double>({}, {1.1}));
  mark_step();
  EXPECT_NEAR(number(second), 56 * std::pow(1.1, 6), 1e-9);
}

TEST(Gradients, OfALossWithRespectToVariables) {
  const FreshRank rank;
  Tensor w = f64s({2, 3});
  const Tensor x = f64s({5, 7});
  const Tensor hidden = w * x;
  const auto d = gradients(sum(hidden * hidden), {w, hidden, x});
  mark_step();
  EXPECT_EQ(d[0].to_vector<double>(), (std::vector<double>{2 * 2 * 25, 2 * 3 * 49}));
  EXPECT_EQ(d[1].to_vector<double>(), (std::vector<double>{20, 42}));
  EXPECT_EQ(d[2].to_vector<double>(), (std::vector<double>{2 * 5 * 4, 2 * 7 * 9}));
}

TEST(Vjp, PullsBackAnyGradientOfTheResult) {
  const FreshRank rank;
  const auto f = [](const Tensor& x, const Tensor& y) { return std::pair(x * y, sum(x)); };
  const auto [result, pullback] = vjp(f, f64s({2, 3}), f64s({5, 7}));
  const auto [dx, dy] = pullback({f64s({1, 10}), Tensor::from<double>({}, {100})});
  mark_step();
  EXPECT_EQ(result.first.to_vector<double>(), (std::vector<double>{10, 21}));
  EXPECT_EQ(dx.to_vector<double>(), (std::vector<double>{105, 170}));
  EXPECT_EQ(dy.to_vector<double>(), (std::vector<double>{2, 30}));
}

TEST(Jvp, EqualsTheDerivativeInADirection) {
  const FreshRank rank;
  const auto f = [](const Tensor& x, const Tensor& y) {
    const auto step = [&](const Tensor& c, const Tensor& row) { return std::pair(tanh(c + row * y), c); };
    const auto [last, ys] = scan(step, sin(y), x);
    return std::pair(last * y, sum(ys));
  };
  const Literal x = seeded_values({4, 3}, 1);
  const Literal y = seeded_values({3}, 2);
  const Literal dx = seeded_values({4, 3}, 3);
  const Literal dy = seeded_values({3}, 4);
  const auto host = [](const Literal& l) { return Tensor::from_host(l); };
  const auto at_step = [&](double h) { return f(host(x) + host(dx) * h, host(y) + host(dy) * h); };
  const auto [result, tangent] = jvp(f, std::tuple(host(x), host(y)), std::tuple(host(dx), host(dy)));
  const auto low = at_step(-1e-5);
  const auto high = at_step(1e-5);
  mark_step();
  const auto exact = tangent.first.to_vector<double>();
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(exact[i], (high.first.to_vector<double>()[i] - low.first.to_vector<double>()[i]) / 2e-5, 1e-8);
  EXPECT_NEAR(number(tangent.second), (number(high.second) - number(low.second)) / 2e-5, 1e-8);
  EXPECT_NEAR(number(result.second), (number(high.second) + number(low.second)) / 2, 1e-8);
}

TEST(StopGradient, KeepsTheValueOnly) {
  const FreshRank rank;
  const auto [value, d] = value_and_grad([](const Tensor& x) { return sum(x * stop_gradient(x)); })(f64s({2, 3}));
  mark_step();
  EXPECT_EQ(number(value), 13);
  EXPECT_EQ(d.to_vector<double>(), (std::vector<double>{2, 3}));
}

TEST(CustomGradient, ReplacesTheGradient) {
  const FreshRank rank;
  const auto clipped = custom_gradient([](const Tensor& x) { return std::pair(x * 1.0, x); },
                                       [](const Tensor& x, const Tensor& d) { return where(x > 0.0, d, 0.0); });
  const Tensor d = grad([&](const Tensor& x) { return sum(clipped(x) * x); })(f64s({2, -3}));
  mark_step();
  EXPECT_EQ(d.to_vector<double>(), (std::vector<double>{4, -3}));
}

TEST(CustomGradient, WorksInScansAndWithSeveralArguments) {
  const FreshRank rank;
  const auto product =
      custom_gradient([](const Tensor& x, const Tensor& y) { return std::pair(x * y, std::pair(x, y)); },
                      [](const std::pair<Tensor, Tensor>& kept, const Tensor& d) {
                        return std::tuple(d * kept.second, d * kept.first);
                      });
  const auto with_custom = [&](const std::vector<Tensor>& a) {
    const auto [last, ys] =
        scan([&](const Tensor& c, const Tensor& x) { return std::pair(product(sin(c), x), c); }, a[0], a[1]);
    return last + sum(ys);
  };
  const auto plain = [&](const std::vector<Tensor>& a) {
    const auto [last, ys] =
        scan([&](const Tensor& c, const Tensor& x) { return std::pair(sin(c) * x, c); }, a[0], a[1]);
    return last + sum(ys);
  };
  expect_equal_functions(with_custom, plain, {seeded_values({}, 1), seeded_values({5}, 2)});
}

TEST(Checkpoint, HasTheSameGradients) {
  const FreshRank rank;
  const auto f = [](const std::vector<Tensor>& a) {
    auto block = checkpoint([&](const Tensor& x) { return tanh(matmul(sin(x), a[1])) + x; });
    const Tensor h = block(block(a[0]));
    return sum(h * h);
  };
  const auto plain = [](const std::vector<Tensor>& a) {
    const auto block = [&](const Tensor& x) { return tanh(matmul(sin(x), a[1])) + x; };
    const Tensor h = block(block(a[0]));
    return sum(h * h);
  };
  const std::vector<Literal> arguments{seeded_values({2, 3}, 1), seeded_values({3, 3}, 2)};
  expect_finite_differences(f, arguments);
  expect_equal_functions(f, plain, arguments);
}

// ---- functions that transforms take ---------------------------------------------------------------------------------

std::vector<double> numbers_of(const Tensor& x) { return x.to_vector<double>(); }
using Numbers = std::vector<double>;

TEST(Checkpoint, ComposesWithAllTransforms) {
  const FreshRank rank;
  const Tensor x = f64s({1, 2, 3});
  const auto cube = [](const Tensor& a) { return a * a * a; };
  const auto total = [](const Tensor& a) { return sum(a * a * a); };
  EXPECT_EQ(numbers_of(grad(checkpoint(total))(x)), (Numbers{3, 12, 27}));
  EXPECT_EQ(numbers_of(value_and_grad(checkpoint(total))(x).second), (Numbers{3, 12, 27}));
  EXPECT_EQ(numbers_of(checkpoint(grad(checkpoint(total)))(x)), (Numbers{3, 12, 27}));
  EXPECT_EQ(numbers_of(vjp(checkpoint(cube), x).second(x)), (Numbers{3, 24, 81}));
  EXPECT_EQ(numbers_of(jvp(checkpoint(cube), std::tuple(x), std::tuple(x)).second), (Numbers{3, 24, 81}));
  EXPECT_EQ(numbers_of(vmap(checkpoint(total))(stack({x, x * 2.0}))), (Numbers{36, 288}));
  const auto with_residual = [](const Tensor& a) { return std::pair(sum(a), a); };
  const auto backward = [](const Tensor& kept, const Tensor& d) { return kept * d * 7.0; };
  EXPECT_EQ(numbers_of(grad(custom_gradient(checkpoint(with_residual), checkpoint(backward)))(x)),
            (Numbers{7, 14, 21}));
  const Mesh mesh({{"x", 1}});
  EXPECT_EQ(numbers_of(shard_map(checkpoint(cube), mesh, {{"x"}}, {{"x"}})(x)), (Numbers{1, 8, 27}));
  EXPECT_EQ(numbers_of(compile(grad(checkpoint(total)))(x)), (Numbers{3, 12, 27}));
}

TEST(Transforms, TakeMutableFunctions) {
  const FreshRank rank;
  const Tensor x = f64s({1, 2});
  const auto scaled = [calls = 0](const Tensor& a) mutable { return a * static_cast<double>(++calls); };
  const auto total = [calls = 0](const Tensor& a) mutable { return sum(a) * static_cast<double>(++calls); };
  const auto gradient = grad(total);
  EXPECT_EQ(numbers_of(gradient(x)), (Numbers{1, 1}));
  EXPECT_EQ(numbers_of(gradient(x)), (Numbers{2, 2}));
  auto own = scaled;
  EXPECT_EQ(numbers_of(vjp(own, x).second(x)), (Numbers{1, 2}));
  EXPECT_EQ(numbers_of(jvp(own, std::tuple(x), std::tuple(x)).second), (Numbers{2, 4}));
  EXPECT_EQ(numbers_of(vmap(total)(stack({x, x}))), (Numbers{3, 3}));
  EXPECT_EQ(numbers_of(shard_map(scaled, Mesh({{"x", 1}}), {{"x"}}, {{"x"}})(x)), (Numbers{1, 2}));
}

TEST(Transforms, KeepNullTensors) {
  const FreshRank rank;
  const Weights w{f64s({2, 3}), {{"none", Tensor()}}};
  const Weights d = grad([](const Weights& p) { return sum(square(p.scale)); })(w);
  EXPECT_EQ(numbers_of(d.scale), (Numbers{4, 6}));
  EXPECT_TRUE(d.shifts.at("none").is_null());
}

}  // namespace
}  // namespace tessera
