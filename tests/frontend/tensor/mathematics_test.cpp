// SPDX-License-Identifier: Apache-2.0
// Mathematical functions and activations: values against <cmath>, values and gradients at edges, errors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/control/transforms.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::numbers;
using testing::Numbers;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor vector_of(const Numbers& values) { return Tensor::from(values, {static_cast<std::int64_t>(values.size())}); }

void expect_same(const Numbers& got, const Numbers& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])))
        << "element " << i << ": " << got[i] << ", not " << expected[i];
}

// The gradients of the sum of f(inputs).
std::vector<Numbers> slopes(const std::vector<Numbers>& values,
                            const std::function<Tensor(const std::vector<Tensor>&)>& f) {
  std::vector<Tensor> inputs;
  for (const Numbers& each : values) inputs.push_back(vector_of(each));
  for (Tensor& input : inputs) input.set_requires_grad();
  std::vector<Numbers> out;
  for (const Tensor& gradient : gradients(sum(f(inputs)), inputs)) out.push_back(numbers(gradient));
  return out;
}
Numbers slope(const Numbers& values, const std::function<Tensor(const Tensor&)>& f) {
  return slopes({values}, [&](const std::vector<Tensor>& x) { return f(x[0]); })[0];
}

// ---- values -------------------------------------------------------------------------------------------------------------

struct MathRow {
  const char* name;
  Tensor (*function)(Operand);
  double (*expected)(double);
  double low;
  double high;
  double least = 0;  // the error is relative to the result, or to this number
};

double sinc_of(double x) { return x == 0 ? 1 : std::sin(std::acos(-1.0) * x) / (std::acos(-1.0) * x); }
double frac_of(double x) { return x - std::trunc(x); }
double log_sigmoid_of(double x) { return -std::log1p(std::exp(-x)); }
double logit_of(double x) { return std::log(x / (1 - x)); }
double relu6_of(double x) { return std::fmin(std::fmax(x, 0), 6); }

TEST(Mathematics, ValuesAreThoseOfTheStandardLibrary) {
  const FreshRank rank;
  const MathRow rows[] = {{"tan", tan, std::tan, -1.5, 1.5},
                          {"asin", asin, std::asin, -1, 1},
                          {"acos", acos, std::acos, -1, 1, 1},
                          {"atan", atan, std::atan, -30, 30},
                          {"sinh", sinh, std::sinh, -20, 20},
                          {"cosh", cosh, std::cosh, -20, 20},
                          {"asinh", asinh, std::asinh, -1e4, 1e4},
                          {"acosh", acosh, std::acosh, 1, 1e4},
                          {"atanh", atanh, std::atanh, -0.999, 0.999},
                          {"log2", log2, std::log2, 1e-3, 1e5},
                          {"log2_near_1", log2, std::log2, 0.9, 1.1},
                          {"log10", log10, std::log10, 1e-3, 1e5},
                          {"exp2", exp2, std::exp2, -120, 120},
                          {"trunc", trunc, std::trunc, -9, 9},
                          {"frac", frac, frac_of, -9, 9},
                          {"sinc", sinc, sinc_of, -3, 3, 1},
                          {"log_sigmoid", log_sigmoid, log_sigmoid_of, -30, 30},
                          {"logit", [](Operand x) { return logit(std::move(x)); }, logit_of, 0.01, 0.99, 1},
                          {"relu6", relu6, relu6_of, -9, 9}};
  for (const MathRow& row : rows) {
    Numbers values;
    for (int i = 0; i <= 136; ++i) values.push_back(static_cast<float>(row.low + (row.high - row.low) * i / 136));
    const Tensor x = vector_of(values);
    for (const auto& [dtype, tolerance] : {std::pair(kF64, 1e-15), std::pair(kF32, 6e-7)}) {
      const Numbers got = numbers(row.function(x.to(dtype)));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double expected = row.expected(values[i]);
        EXPECT_NEAR(got[i], expected, tolerance * std::fmax(std::fabs(expected), row.least))
            << row.name << " of " << values[i];
      }
    }
  }
}

TEST(Mathematics, LogarithmsOfPowersOfTheBaseAreExact) {
  const FreshRank rank;
  const auto powers = [](double base, int first, int last, DType dtype) {
    Numbers values, exponents;
    for (int i = first; i <= last; ++i) {
      exponents.push_back(i);
      values.push_back(std::pow(base, i));
    }
    return std::pair(vector_of(values).to(dtype), exponents);
  };
  const auto expect_exact = [&](Tensor (*log)(Operand), double base, int first, int last, DType dtype) {
    const auto [x, exponents] = powers(base, first, last, dtype);
    EXPECT_EQ(numbers(log(x)), exponents) << dtype_name(dtype);
  };
  expect_exact(log2, 2, -1074, 1023, kF64);
  expect_exact(log2, 2, -149, 127, kF32);
  expect_exact(log2, 2, -24, 15, kF16);
  expect_exact(log2, 2, -126, 127, kBF16);
  expect_exact(log10, 10, -300, 308, kF64);
  expect_exact(log10, 10, -37, 38, kF32);
  expect_same(numbers(log2(vector_of({0, -1, kInf, kNaN}))), {-kInf, kNaN, kInf, kNaN});
  EXPECT_NEAR(slope({8}, [](const Tensor& x) { return log2(x); })[0], 1 / (8 * std::log(2)), 1e-16);
  EXPECT_NEAR(slope({100}, [](const Tensor& x) { return log10(x); })[0], 1 / (100 * std::log(10)), 1e-17);
}

TEST(Mathematics, SixteenBitFloatsAreRoundedOnce) {
  const FreshRank rank;
  const Tensor x = (arange(-40, 41, 1, kF64) * 0.07 + 0.011).to(kBF16), y = abs(x) + 0.1;
  const auto functions = std::vector<std::function<Tensor(const Tensor&, const Tensor&)>>{
      [](const Tensor& a, const Tensor& b) { return hypot(a, b); },
      [](const Tensor& a, const Tensor& b) { return logaddexp(a, b); },
      [](const Tensor& a, const Tensor& b) { return xlogy(a, b); },
      [](const Tensor& a, const Tensor& b) { return lerp(a, b, 0.3); },
      [](const Tensor& a, const Tensor& b) { return lerp(a, b, a); },
      [](const Tensor& a, const Tensor& b) { return floor_divide(a, b); },
      [](const Tensor&, const Tensor& b) { return log2(b); },
      [](const Tensor& a, const Tensor&) { return sinc(a); },
      [](const Tensor& a, const Tensor&) { return celu(a, 0.7); },
      [](const Tensor& a, const Tensor&) { return log_sigmoid(a); },
      [](const Tensor& a, const Tensor&) { return normalize(a, {.dim = 0}); }};
  for (const auto& f : functions) {
    const Tensor got = f(x, y);
    EXPECT_EQ(got.dtype(), kBF16);
    EXPECT_EQ(numbers(got), numbers(f(x.to(kF32), y.to(kF32)).to(kBF16))) << &f - functions.data();
  }
}

TEST(Mathematics, HypotNeitherOverflowsNorVanishes) {
  const FreshRank rank;
  const Numbers x{3, 5, 0, -1e300, 1e-310, 1e-200, kInf, kNaN, 1e155}, y{4, 12, 0, 1e300, 1e-310, 0, kNaN, 1, 1};
  const Numbers got = numbers(hypot(vector_of(x), vector_of(y)));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = std::hypot(x[i], y[i]);
    if (std::isfinite(expected))
      EXPECT_NEAR(got[i], expected, 4e-16 * expected) << i;
    else
      expect_same({got[i]}, {expected});
  }
  for (const double size : {2e38, 1e19, 3.0, 1e-19, 1e-30, 1e-38}) {
    const Tensor side = vector_of({size}).to(kF32);
    EXPECT_NEAR(numbers(hypot(side, side))[0], std::sqrt(2.0) * size, 3e-7 * size);
  }
  EXPECT_EQ(hypot(vector_of({3}), 4.0).item(), 5);
}

TEST(Mathematics, RemaindersHaveTheSignOfTheDivisorAndThoseOfFmodThatOfTheDividend) {
  const FreshRank rank;
  const Tensor x = Tensor::from({-7, -6, -1, 0, 1, 6, 7}, {7});
  EXPECT_EQ(numbers(floor_divide(x, 3)), (Numbers{-3, -2, -1, 0, 0, 2, 2}));
  EXPECT_EQ(numbers(floor_divide(x, -3)), (Numbers{2, 2, 0, 0, -1, -2, -3}));
  EXPECT_EQ(numbers(fmod(x, 3)), (Numbers{-1, 0, -1, 0, 1, 0, 1}));
  EXPECT_EQ(numbers(remainder(x, 3)), (Numbers{2, 0, 2, 0, 1, 0, 1}));
  EXPECT_EQ(numbers(remainder(x, -3)), (Numbers{-1, 0, -1, 0, -2, 0, -2}));
  EXPECT_EQ(numbers(remainder(Tensor::from(std::vector<std::uint8_t>{0, 5, 255}, {3}), 2)), (Numbers{0, 1, 1}));
  expect_same(numbers(remainder(vector_of({5.5, -5.5, 5.5, -6, 1, -1}), vector_of({2, 2, -2, 2, kInf, kInf}))),
              {1.5, 0.5, -0.5, 0, 1, kInf});
  EXPECT_EQ(numbers(floor_divide(Tensor::from(std::vector<std::uint8_t>{0, 5, 255}, {3}), 2)), (Numbers{0, 2, 127}));
  expect_same(numbers(floor_divide(vector_of({1, -1, -0.5, 1, 0, kInf}), vector_of({0.1, kInf, 2, 0, 0, 2}))),
              {9, -1, -1, kInf, kNaN, kNaN});
  EXPECT_TRUE(std::signbit(numbers(floor_divide(vector_of({0}), -3.0))[0]));
  expect_same(numbers(fmod(vector_of({5.5, -5.5, 5.5}), vector_of({2, 2, -2}))), {1.5, -1.5, 1.5});
  EXPECT_EQ(numbers(trunc(vector_of({-1.5, 1.5, -0.5}))), (Numbers{-1, 1, 0}));
  EXPECT_EQ(numbers(frac(vector_of({-1.5, 1.25}))), (Numbers{-0.5, 0.25}));
}

TEST(Mathematics, InfinitiesAndNaNAreFoundAndReplaced) {
  const FreshRank rank;
  const Tensor x = vector_of({1, -kInf, kNaN, kInf});
  EXPECT_EQ(numbers(isinf(x)), (Numbers{0, 1, 0, 1}));
  EXPECT_EQ(numbers(isposinf(x)), (Numbers{0, 0, 0, 1}));
  EXPECT_EQ(numbers(isneginf(x)), (Numbers{0, 1, 0, 0}));
  EXPECT_EQ(numbers(isinf(arange(2))), (Numbers{0, 0}));
  EXPECT_EQ(numbers(isfinite(arange(2))), (Numbers{1, 1}));
  EXPECT_EQ(numbers(nan_to_num(x, {.nan = 7, .posinf = 8, .neginf = 9})), (Numbers{1, 9, 7, 8}));
  EXPECT_EQ(numbers(nan_to_num(x.to(kF16))), (Numbers{1, -65504, 0, 65504}));
  const double most_bf16 = std::ldexp(255, 120), most_f32 = std::numeric_limits<float>::max();
  EXPECT_EQ(numbers(nan_to_num(x.to(kBF16))), (Numbers{1, -most_bf16, 0, most_bf16}));
  EXPECT_EQ(numbers(nan_to_num(x.to(kF32))), (Numbers{1, -most_f32, 0, most_f32}));
  EXPECT_EQ(numbers(nan_to_num(arange(3))), (Numbers{0, 1, 2}));
  EXPECT_EQ(slope({1, -kInf, kNaN}, [](const Tensor& v) { return nan_to_num(v) * 3.0; }), (Numbers{3, 0, 0}));
}

TEST(Mathematics, LerpIsExactAtBothEnds) {
  const FreshRank rank;
  const Tensor start = vector_of({0.1, -3, 7}), end = vector_of({0.7, 5, 0.3});
  EXPECT_EQ(numbers(lerp(start, end, 0)), numbers(start));
  EXPECT_EQ(numbers(lerp(start, end, 1)), numbers(end));
  EXPECT_EQ(numbers(lerp(start, end, vector_of({0, 0.25, 1}))), (Numbers{0.1, -1, 0.3}));
  EXPECT_EQ(error_of([&] { lerp(start, end, ones({3})); }),
            "lerp: the weight is f32[3], but the ends are f64[3]; convert one with .to()");
  EXPECT_EQ(error_of([&] { lerp(arange(3), arange(3), 0.5); }),
            "lerp: needs floats, got s32[3]; convert it with .to() first");
}

// ---- edges --------------------------------------------------------------------------------------------------------------

using Pair = const std::vector<Tensor>&;

TEST(Mathematics, GradientsAtTheOriginAreZero) {
  const FreshRank rank;
  const auto of_hypot = slopes({{0, 3}, {0, 4}}, [](Pair v) { return hypot(v[0], v[1]); });
  EXPECT_EQ(of_hypot[0][0], 0);
  EXPECT_EQ(of_hypot[1][0], 0);
  EXPECT_NEAR(of_hypot[0][1], 0.6, 1e-15);
  EXPECT_NEAR(of_hypot[1][1], 0.8, 1e-15);
  const auto of_atan2 = slopes({{0, 3}, {0, 4}}, [](Pair v) { return atan2(v[0], v[1]); });
  EXPECT_EQ(of_atan2[0][0], 0);
  EXPECT_EQ(of_atan2[1][0], 0);
  EXPECT_NEAR(of_atan2[0][1], 4.0 / 25, 1e-16);
  EXPECT_NEAR(of_atan2[1][1], -3.0 / 25, 1e-16);
  EXPECT_EQ(slope({0}, [](const Tensor& x) { return sinc(x); }), Numbers{0});
  EXPECT_EQ(sinc(vector_of({0})).item(), 1);
}

TEST(Mathematics, LogaddexpTakesEqualAndInfiniteOperands) {
  const FreshRank rank;
  const Numbers x{2, -kInf, kInf, -kInf, 1000}, y{2, -kInf, kInf, 3, 1000.5};
  const Numbers got = numbers(logaddexp(vector_of(x), vector_of(y)));
  EXPECT_NEAR(got[0], 2 + std::log(2), 1e-15);
  expect_same({got[1], got[2], got[3]}, {-kInf, kInf, 3});
  EXPECT_NEAR(got[4], 1000.5 + std::log1p(std::exp(-0.5)), 1e-12);
  const auto d = slopes({x, y}, [](Pair v) { return logaddexp(v[0], v[1]); });
  expect_same({d[0][0], d[0][1], d[0][2], d[0][3]}, {0.5, 0, 0, 0});
  expect_same({d[1][0], d[1][1], d[1][2], d[1][3]}, {0.5, 0, 0, 1});
  const auto curved = [](const Tensor& v) { return logaddexp(v, 2.0); };
  EXPECT_NEAR(grad(grad(curved))(Tensor::from<double>({}, {2.0})).item(), 0.25, 1e-15);
}

TEST(Mathematics, XlogyIsZeroWhereItsFirstOperandIs) {
  const FreshRank rank;
  const Numbers x{0, 0, 0, 0, 0, 2, 2}, y{2, 0, -1, kInf, kNaN, 3, 0};
  expect_same(numbers(xlogy(vector_of(x), vector_of(y))), {0, 0, 0, 0, kNaN, 2 * std::log(3.0), -kInf});
  const auto d = slopes({x, y}, [](Pair v) { return xlogy(v[0], v[1]); });
  expect_same(Numbers(d[0].begin(), d[0].begin() + 4), {std::log(2.0), 0, 0, 0});
  expect_same(Numbers(d[1].begin(), d[1].begin() + 4), {0, 0, 0, 0});
}

TEST(Mathematics, LogitIsInfiniteAtItsEnds) {
  const FreshRank rank;
  expect_same(numbers(logit(vector_of({0, 0.5, 1, 1.5}))), {-kInf, 0, kInf, kNaN});
  expect_same(slope({0, 0.5, 1}, [](const Tensor& x) { return logit(x); }), {kInf, 4, kInf});
  const Numbers clamped = numbers(logit(vector_of({0, 0.5, 1}), 0.25));
  EXPECT_NEAR(clamped[0], -std::log(3), 1e-15);
  EXPECT_NEAR(clamped[2], std::log(3), 1e-15);
  EXPECT_EQ(error_of([] { logit(ones({2}), 0.7); }), "logit: epsilon must be in [0, 0.5], got 0.7");
}

// ---- activations --------------------------------------------------------------------------------------------------------

TEST(Activations, HaveTheSlopesOfPyTorchAtTheirKinks) {
  const FreshRank rank;
  EXPECT_EQ(slope({-1, 0, 1}, [](const Tensor& x) { return hardtanh(x); }), (Numbers{0, 1, 0}));
  EXPECT_EQ(slope({0, 3, 6}, [](const Tensor& x) { return relu6(x); }), (Numbers{0, 1, 0}));
  EXPECT_EQ(slope({-1, 0, 1}, [](const Tensor& x) { return threshold(x, 0, 5); }), (Numbers{0, 0, 1}));
  EXPECT_EQ(slope({0}, [](const Tensor& x) { return celu(x, 0.3); }), Numbers{1});
  EXPECT_EQ(slope({0}, [](const Tensor& x) { return log_sigmoid(x); }), Numbers{0.5});
  const auto of_prelu = slopes({{-2, 0, 3}, {0.5}}, [](Pair v) { return prelu(v[0], v[1]); });
  EXPECT_EQ(of_prelu[0], (Numbers{0.5, 0.5, 1}));
  EXPECT_EQ(of_prelu[1], Numbers{-2});
}

TEST(Activations, KeepNaNAndTakeLargeNumbers) {
  const FreshRank rank;
  const Tensor x = vector_of({kNaN, -1e4, 1e4});
  expect_same(numbers(hardtanh(x)), {kNaN, -1, 1});
  expect_same(numbers(threshold(x, 0, 5)), {kNaN, 5, 1e4});
  expect_same(numbers(celu(x, 2)), {kNaN, -2, 1e4});
  expect_same(numbers(log_sigmoid(x)), {kNaN, -1e4, 0});
  expect_same(slope({-1e4, 1e4}, [](const Tensor& v) { return celu(v, 2); }), {0, 1});
  expect_same(slope({-1e4, 1e4}, [](const Tensor& v) { return log_sigmoid(v); }), {1, 0});
}

TEST(Activations, GluMultipliesTheHalves) {
  const FreshRank rank;
  const Tensor x = vector_of({1, 2, 0, 0}).reshape({2, 2});
  EXPECT_EQ(numbers(glu(x, 0)), (Numbers{0.5, 1}));
  EXPECT_EQ(error_of([] { glu(zeros({2, 3})); }), "glu: dim 1 of f32[2,3] needs an even size to be halved");
  EXPECT_EQ(error_of([] {
              prelu(zeros({2, 3}), zeros({2}));
            }),
            "prelu: the weight must have one element, or one for each element of dim 1 of f32[2,3], got f32[2]");
  EXPECT_EQ(error_of([] { celu(zeros({2}), 0); }), "celu: alpha must not be 0");
  EXPECT_EQ(error_of([] { hardtanh(zeros({2}), 2, 1); }), "hardtanh: the lower bound 2 is above the upper bound 1");
  EXPECT_EQ(error_of([] { log2(arange(3)); }), "log2: needs floats, got s32[3]; convert it with .to() first");
}

// ---- members ------------------------------------------------------------------------------------------------------------

TEST(Members, ElementwiseOnesEqualTheFunctions) {
  const FreshRank rank;
  const Tensor x = arange(-3, 3, 1, kF64) * 0.3 + 0.05, y = abs(x) + 0.2;
  const std::vector<std::pair<Tensor, Tensor>> pairs{{x.acos(), acos(x)},
                                                     {y.acosh(), acosh(y)},
                                                     {x.asin(), asin(x)},
                                                     {x.asinh(), asinh(x)},
                                                     {x.atan(), atan(x)},
                                                     {x.atan2(y), atan2(x, y)},
                                                     {x.atanh(), atanh(x)},
                                                     {x.celu(2), celu(x, 2)},
                                                     {x.clamp(-0.2, 0.3), clamp(x, -0.2, 0.3)},
                                                     {x.clip(-0.2, 0.3), clip(x, {.min = -0.2, .max = 0.3})},
                                                     {x.clip({.min = 0}), clamp(x, {.min = 0})},
                                                     {x.cosh(), cosh(x)},
                                                     {x.div(y), div(x, y)},
                                                     {x.elu(), elu(x)},
                                                     {x.exp2(), exp2(x)},
                                                     {x.floor_divide(y), floor_divide(x, y)},
                                                     {x.fmod(y), fmod(x, y)},
                                                     {x.frac(), frac(x)},
                                                     {x.gelu(), gelu(x)},
                                                     {x.gelu_new(), gelu_new(x)},
                                                     {x.glu(), glu(x)},
                                                     {x.hardsigmoid(), hardsigmoid(x)},
                                                     {x.hardswish(), hardswish(x)},
                                                     {x.hardtanh(-0.1, 0.1), hardtanh(x, -0.1, 0.1)},
                                                     {x.hypot(y), hypot(x, y)},
                                                     {x.isinf(), isinf(x)},
                                                     {x.isneginf(), isneginf(x)},
                                                     {x.isposinf(), isposinf(x)},
                                                     {x.leaky_relu(), leaky_relu(x)},
                                                     {x.lerp(y, 0.3), lerp(x, y, 0.3)},
                                                     {y.log10(), log10(y)},
                                                     {y.log2(), log2(y)},
                                                     {x.log_sigmoid(), log_sigmoid(x)},
                                                     {x.logaddexp(y), logaddexp(x, y)},
                                                     {x.logical_and(y), logical_and(x, y)},
                                                     {x.logical_not(), logical_not(x)},
                                                     {x.logical_or(y), logical_or(x, y)},
                                                     {x.logical_xor(y), logical_xor(x, y)},
                                                     {y.logit(0.1), logit(y, 0.1)},
                                                     {x.masked_fill(x > 0.0, y[0]), masked_fill(x, x > 0.0, y[0])},
                                                     {x.maximum(y), maximum(x, y)},
                                                     {x.minimum(0.1), minimum(x, 0.1)},
                                                     {x.mish(), mish(x)},
                                                     {x.nan_to_num(), nan_to_num(x)},
                                                     {x.prelu(y[Range(0, 1)]), prelu(x, y[Range(0, 1)])},
                                                     {x.relu6(), relu6(x)},
                                                     {x.remainder(y), remainder(x, y)},
                                                     {x.selu(), selu(x)},
                                                     {x.silu(), silu(x)},
                                                     {x.sinc(), sinc(x)},
                                                     {x.sinh(), sinh(x)},
                                                     {x.softplus(2), softplus(x, 2)},
                                                     {x.tan(), tan(x)},
                                                     {x.threshold(0, 5), threshold(x, 0, 5)},
                                                     {x.trunc(), trunc(x)},
                                                     {x.where(x > 0.0, y), where(x > 0.0, x, y)},
                                                     {y.xlogy(y), xlogy(y, y)}};
  for (std::size_t i = 0; i < pairs.size(); ++i) expect_same(numbers(pairs[i].first), numbers(pairs[i].second));
}

}  // namespace
}  // namespace tessera
