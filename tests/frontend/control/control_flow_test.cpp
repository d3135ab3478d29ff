// SPDX-License-Identifier: Apache-2.0
// cond, while_loop, fori_loop and scan: values, gradients, errors.
#include "tessera/frontend/control/control_flow.h"
#include "frontend/tensors.h"
#include "support/error_of.h"

#include <gtest/gtest.h>

#include <cmath>

#include "frontend/control/finite_gradients.h"
#include "frontend/on_ranks.h"
#include "tessera/frontend/control/checkpoint.h"
#include "tessera/frontend/control/transforms.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::error_of;

using testing::expect_equal_functions;
using testing::expect_finite_differences;
using testing::seeded_values;

// ---- cond -----------------------------------------------------------------------------------------------------------

TEST(Cond, RunsTheSelectedFunction) {
  const FreshRank rank;
  for (const double sign : {1.0, -1.0}) {
    const Tensor x = f64s({1 * sign, 2 * sign, 3 * sign});
    const Tensor y = cond(
        sum(x) > 0.0, [&] { return x * 2.0; }, [&] { return x - 1.0; });
    mark_step();
    const auto expected = sign > 0 ? std::vector<double>{2, 4, 6} : std::vector<double>{-2, -3, -4};
    EXPECT_EQ(y.to_vector<double>(), expected);
  }
}

TEST(Cond, PassesOperandsAndReturnsTrees) {
  const FreshRank rank;
  const Tensor x = f64s({1, 2});
  const Tensor w = f64s({5, 7});
  const auto swap = [](const Tensor& a, const Tensor& b) { return std::pair(b, a * 3.0); };
  const auto keep = [](const Tensor& a, const Tensor& b) { return std::pair(a, b); };
  const auto [a, b] = cond(sum(x) < 0.0, keep, swap, x, w);
  mark_step();
  EXPECT_EQ(a.to_vector<double>(), (std::vector<double>{5, 7}));
  EXPECT_EQ(b.to_vector<double>(), (std::vector<double>{3, 6}));
}

TEST(Cond, BothGradientsEqualFiniteDifferences) {
  const FreshRank rank;
  for (const double shift : {3.0, -3.0})
    expect_finite_differences(
        [&](const std::vector<Tensor>& a) {
          const Tensor hidden = tanh(a[0] * a[1]);
          const Tensor y = cond(
              sum(hidden) + shift > 0.0, [&] { return sin(hidden) * a[1]; }, [&] { return exp(hidden) - a[0]; });
          return sum(y * y);
        },
        {seeded_values({5}, 1), seeded_values({5}, 2)});
}

TEST(Cond, FunctionsThatReturnDifferentTypesAreAnError) {
  const FreshRank rank;
  const Tensor x = f64s({1, 2, 3});
  EXPECT_EQ(
      error_of([&] {
        (void)cond(
            sum(x) > 0.0, [&] { return x; }, [&] { return sum(x); });
      }).find("cond: the function returns f64[] for tensor 0 of the result of the first function, which is f64[3]"),
      0U);
  EXPECT_NE(error_of([&] {
              (void)cond(
                  sum(x), [&] { return x; }, [&] { return x; });
            }).find("cond: the predicate must be pred[], got f64[]"),
            std::string::npos);
}

// ---- while_loop -----------------------------------------------------------------------------------------------------

TEST(WhileLoop, RunsUntilTheConditionIsFalse) {
  const FreshRank rank;
  const Tensor limit = Tensor::from<double>({}, {100});
  const auto [count, value] = while_loop([&](const auto& s) { return s.second < limit; },
                                         [&](const auto& s) { return std::pair(s.first + 1.0, s.second * 3.0); },
                                         std::pair(Tensor::from<std::int32_t>({}, {0}), Tensor::from<double>({}, {2})));
  mark_step();
  EXPECT_EQ(value.item(), 162);
  EXPECT_EQ(count.item(), 4);
}

TEST(WhileLoop, ItsGradientIsAnErrorThatNamesTheAlternative) {
  const FreshRank rank;
  Tensor x = Tensor::from<double>({}, {2});
  x.set_requires_grad();
  const Tensor y = while_loop([&](const Tensor& v) { return v < 50.0; }, [&](const Tensor& v) { return v * v; }, x);
  EXPECT_NE(error_of([&] { y.backward(); }).find("use fori_loop or scan"), std::string::npos);
}

TEST(WhileLoop, ABodyThatChangesTheTypeOfTheStateIsAnError) {
  const FreshRank rank;
  const Tensor x = f64s({1, 2, 3});
  EXPECT_NE(error_of([&] {
              (void)while_loop([](const Tensor& v) { return sum(v) < 9.0; }, [](const Tensor& v) { return sum(v); }, x);
            }).find("while_loop: the function returns f64[] for tensor 0 of the state, which is f64[3]"),
            std::string::npos);
}

// ---- fori_loop and scan ---------------------------------------------------------------------------------------------

TEST(ForiLoop, CountsFromLowerToUpper) {
  const FreshRank rank;
  const Tensor zero = Tensor::from<std::int32_t>({}, {0});
  const Tensor total = fori_loop(
      3, 8, [](const Tensor& i, const Tensor& v) { return v + i; }, zero);
  const Tensor none = fori_loop(
      5, 5, [](const Tensor& i, const Tensor& v) { return v + i; }, zero);
  const Tensor computed = fori_loop(
      zero + 2.0, zero + 5.0, [](const Tensor& i, const Tensor& v) { return v + i; }, zero);
  mark_step();
  EXPECT_EQ(total.item(), 3 + 4 + 5 + 6 + 7);
  EXPECT_EQ(none.item(), 0);
  EXPECT_EQ(computed.item(), 2 + 3 + 4);
}

TEST(ForiLoop, GradientsFlowToTheInitialValueAndToCapturedTensors) {
  const FreshRank rank;
  const auto looped = [](const std::vector<Tensor>& a) {
    const Tensor y = fori_loop(
        0, 5, [&](const Tensor&, const Tensor& v) { return tanh(v * a[1]) + v; }, a[0]);
    return sum(y * y);
  };
  const auto written_out = [](const std::vector<Tensor>& a) {
    Tensor v = a[0];
    for (int i = 0; i < 5; ++i) v = tanh(v * a[1]) + v;
    return sum(v * v);
  };
  const std::vector<Literal> arguments{seeded_values({3}, 3), seeded_values({3}, 4)};
  expect_finite_differences(looped, arguments);
  expect_equal_functions(looped, written_out, arguments);
}

// A recurrent cell over a sequence; `how` sets the options.
testing::TensorFunction recurrent(ScanOptions how) {
  return [how](const std::vector<Tensor>& a) {
    const auto cell = [&](const Tensor& h, const Tensor& x) {
      const Tensor next = tanh(matmul(h.unsqueeze(0), a[2]).squeeze(0) + x);
      return std::pair(next, next * h);
    };
    const auto [last, outputs] = scan(cell, a[0], a[1], how);
    return sum(last * 2.0) + sum(outputs * outputs * a[1]);
  };
}
testing::TensorFunction recurrent_written_out(bool reverse) {
  return [reverse](const std::vector<Tensor>& a) {
    Tensor h = a[0];
    Tensor total;
    const std::int64_t length = a[1].dim(0);
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t i = reverse ? length - 1 - k : k;
      const Tensor x = a[1].select(0, i);
      const Tensor next = tanh(matmul(h.unsqueeze(0), a[2]).squeeze(0) + x);
      const Tensor y = next * h;
      total = total.is_null() ? sum(y * y * x) : total + sum(y * y * x);
      h = next;
    }
    return sum(h * 2.0) + total;
  };
}
std::vector<Literal> recurrent_arguments() {
  return {seeded_values({3}, 5), seeded_values({7, 3}, 6), seeded_values({3, 3}, 7)};
}

TEST(Scan, GradientsEqualFiniteDifferences) {
  const FreshRank rank;
  expect_finite_differences(recurrent({}), recurrent_arguments());
}

TEST(Scan, EqualsTheLoopWrittenOutForwardAndInReverse) {
  const FreshRank rank;
  for (const bool reverse : {false, true})
    for (const std::int64_t unroll : {1, 2, 3, 7, 20})
      expect_equal_functions(recurrent({.reverse = reverse, .unroll = unroll}), recurrent_written_out(reverse),
                             recurrent_arguments());
}

TEST(Scan, ReturnsTheYsInTheOrderOfTheXs) {
  const FreshRank rank;
  const Tensor xs = f64s({1, 2, 3, 4, 5});
  const auto sum_so_far = [](const Tensor& c, const Tensor& x) { return std::pair(c + x, std::vector<Tensor>{c, x}); };
  const auto [forward, ys] = scan(sum_so_far, Tensor::from<double>({}, {0}), xs);
  const auto [backward, zs] = scan(sum_so_far, Tensor::from<double>({}, {0}), xs, {.reverse = true});
  mark_step();
  EXPECT_EQ(forward.item(), 15);
  EXPECT_EQ(ys[0].to_vector<double>(), (std::vector<double>{0, 1, 3, 6, 10}));
  EXPECT_EQ(zs[0].to_vector<double>(), (std::vector<double>{14, 12, 9, 5, 0}));
  EXPECT_EQ(zs[1].to_vector<double>(), (std::vector<double>{1, 2, 3, 4, 5}));
}

TEST(Scan, WithoutXsTakesALength) {
  const FreshRank rank;
  const auto f = [](const Tensor& c, NoXs) { return std::pair(c * 2.0, c); };
  const auto [last, powers] = scan(f, Tensor::from<double>({}, {1}), NoXs{}, {.length = 6});
  const auto [same, none] = scan(f, Tensor::from<double>({}, {1}), NoXs{}, {.length = 0});
  mark_step();
  EXPECT_EQ(last.item(), 64);
  EXPECT_EQ(powers.to_vector<double>(), (std::vector<double>{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(same.item(), 1);
  EXPECT_EQ(none.dims(), Dims{0});
}

TEST(Scan, NestsAndItsGradientsNestToo) {
  const FreshRank rank;
  const auto nested = [](const std::vector<Tensor>& a) {
    const auto outer = [&](const Tensor& c, const Tensor& row) {
      const auto inner = [&](const Tensor& d, const Tensor& x) { return std::pair(sin(d * x) + a[2], d * c); };
      const auto [last, products] = scan(inner, sum(c) * a[2], row);
      return std::pair(c + last, sum(products));
    };
    const auto [last, sums] = scan(outer, a[0], a[1]);
    return sum(last) + sum(sums * sums);
  };
  expect_finite_differences(nested, {seeded_values({}, 1), seeded_values({3, 5}, 2), seeded_values({}, 3)});
}

TEST(Scan, ContainsConditionalsAndLoops) {
  const FreshRank rank;
  const auto mixed = [](const std::vector<Tensor>& a) {
    const auto step = [&](const Tensor& c, const Tensor& x) {
      const Tensor y = cond(
          x > 0.0, [&] { return c * x; }, [&] { return c + a[2]; });
      const Tensor z = fori_loop(
          0, 3, [&](const Tensor&, const Tensor& v) { return v * 0.5 + a[2] * v * v; }, y);
      return std::pair(z, y);
    };
    const auto [last, ys] = scan(step, a[0], a[1]);
    return last * last + sum(ys);
  };
  expect_finite_differences(mixed, {seeded_values({}, 11), seeded_values({6}, 12), seeded_values({}, 13)});
}

TEST(Scan, WithACheckpointHasTheSameGradients) {
  const FreshRank rank;
  const auto with_checkpoint = [](const std::vector<Tensor>& a) {
    auto cell = checkpoint([&](const Tensor& h, const Tensor& x) {
      const Tensor next = tanh(matmul(h.unsqueeze(0), a[2]).squeeze(0) + x);
      return std::pair(next, next * h);
    });
    const auto [last, outputs] = scan(cell, a[0], a[1]);
    return sum(last * 2.0) + sum(outputs * outputs * a[1]);
  };
  expect_equal_functions(with_checkpoint, recurrent({}), recurrent_arguments());
}

TEST(Scan, DrawsOtherRandomNumbersInEachIteration) {
  const FreshRank rank;
  const auto draw = [](const Tensor& c, NoXs) { return std::pair(c, random_uniform(Type::array(DType::kF32, {4}))); };
  const auto [c, numbers] = scan(draw, Tensor::from<double>({}, {0}), NoXs{}, {.length = 5});
  mark_step();
  const auto values = numbers.to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(values[i], values[k]) << i << " and " << k;
}

TEST(Scan, DropoutMasksAreTheSameInTheBackwardPass) {
  const FreshRank rank;
  Tensor x = Tensor::from_host(seeded_values({6, 5}, 3));
  x.set_requires_grad();
  const auto [c, ys] = scan([](const Tensor& c, const Tensor& row) { return std::pair(c, dropout(row, 0.5)); },
                            Tensor::from<double>({}, {0}), x);
  const Tensor loss = sum(ys);
  loss.backward();
  mark_step();
  const auto y = ys.to_vector<double>();
  const auto given = x.to_vector<double>();
  const auto gradient = x.grad().to_vector<double>();
  int dropped = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(gradient[i] * given[i], y[i], 1e-12) << i;
    dropped += y[i] == 0 ? 1 : 0;
  }
  EXPECT_GT(dropped, 4);
  EXPECT_LT(dropped, 26);
}

TEST(Scan, MistakesAreNamed) {
  const FreshRank rank;
  const Tensor xs = f64s({1, 2, 3});
  const Tensor zero = Tensor::from<double>({}, {0});
  const auto f = [](const Tensor& c, const Tensor& x) { return std::pair(c + x, x); };
  EXPECT_NE(
      error_of([&] { (void)scan(f, zero, xs, {.length = 4}); }).find("scan: .length is 4, but dim 0 of the xs is 3"),
      std::string::npos);
  EXPECT_NE(error_of([&] { (void)scan(f, zero, xs, {.length = 4}); }).find("control_flow_test.cpp:"),
            std::string::npos);
  EXPECT_NE(error_of([&] { (void)scan(f, xs, xs); }).find("no error"), std::string::npos);
  const auto grows = [](const Tensor& c, const Tensor& x) { return std::pair(c.to(DType::kF32), x); };
  EXPECT_NE(error_of([&] {
              (void)scan(grows, zero, xs);
            }).find("scan: the function returns f32[] for tensor 0 of the carry, which is f64[]"),
            std::string::npos);
  const auto reads = [](const Tensor& c, const Tensor& x) { return std::pair(c * x.item(), x); };
  EXPECT_NE(error_of([&] { (void)scan(reads, zero, xs); }).find("a tensor is read inside of a function"),
            std::string::npos);
  Tensor leaked;
  (void)scan([&](const Tensor& c, const Tensor& x) { return leaked = x, std::pair(c + x, x); }, zero, xs);
  EXPECT_NE(error_of([&] { (void)(leaked + 1.0); }).find("computed inside of a function of cond"), std::string::npos);
}

}  // namespace
}  // namespace tessera
