// SPDX-License-Identifier: Apache-2.0
// nn::init gives parameters the distributions of torch.nn.init, with equal values on every mesh.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "frontend/on_ranks.h"
#include "nn/layer_checks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/initializers.h"
#include "tessera/nn/layers.h"
#include "tessera/nn/scan_layers.h"

namespace tessera::nn {
namespace {

/// A module with one parameter.
class One : public Callable<One> {
 public:
  explicit One(const Dims& dims, DType dtype = DType::kF64, Dims exported = {})
      : weight(add_parameter("weight", Type::array(dtype, dims), zeros(), std::move(exported))) {}
  Tensor forward(const Tensor& x) { return x * weight; }
  Tensor weight;
};

using Change = std::function<void(const Tensor&)>;

Numbers values_after(const Change& change, const Dims& dims, DType dtype = DType::kF64) {
  const FreshRank rank;
  manual_seed(5);
  const One one(dims, dtype);
  change(one.weight);
  return one.weight.detach().to(DType::kF64).to_vector<double>();
}

double mean_of(const Numbers& x) { return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size()); }
double deviation_of(const Numbers& x) {
  const double mean = mean_of(x);
  double sum = 0;
  for (const double value : x) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(x.size()));
}
double largest(const Numbers& x) {
  return std::abs(*std::max_element(x.begin(), x.end(), [](double a, double b) { return std::abs(a) < std::abs(b); }));
}

// The largest distance between the distribution of the values and the function `below`, times the root of their number.
// It is above 1.95 with a probability of 0.1%.
double distance(Numbers values, const std::function<double(double)>& below) {
  std::sort(values.begin(), values.end());
  double out = 0;
  const auto count = static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = below(values[i]);
    out = std::max({out, std::abs(expected - static_cast<double>(i) / count),
                    std::abs(expected - static_cast<double>(i + 1) / count)});
  }
  return out * std::sqrt(count);
}

double normal_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST(Init, GainsAreThoseOfPyTorch) {
  EXPECT_EQ(init::calculate_gain("linear"), 1);
  EXPECT_EQ(init::calculate_gain("conv_transpose2d"), 1);
  EXPECT_EQ(init::calculate_gain("sigmoid"), 1);
  EXPECT_DOUBLE_EQ(init::calculate_gain("tanh"), 5.0 / 3.0);
  EXPECT_DOUBLE_EQ(init::calculate_gain("relu"), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(init::calculate_gain("leaky_relu"), std::sqrt(2 / 1.0001));
  EXPECT_DOUBLE_EQ(init::calculate_gain("leaky_relu", 0.5), std::sqrt(1.6));
  EXPECT_EQ(init::calculate_gain("selu"), 0.75);
  expect_error([] { (void)init::calculate_gain("reul"); }, "calculate_gain: unknown nonlinearity reul");
}

TEST(Init, UniformOnesHaveTheBoundsOfTheirFans) {
  const Dims kernel{13, 7, 3, 5};  // fan_in 105, fan_out 195
  struct Case {
    const char* name;
    Change change;
    Dims dims;
    double low, high;
  };
  const double xavier = std::sqrt(6.0 / 300);
  const double kaiming = std::sqrt(2 / 1.25) * std::sqrt(3.0 / 195);
  for (const Case& one :
       {Case{"uniform", [](const Tensor& w) { init::uniform(w); }, {67, 53}, 0, 1},
        Case{"uniform in [-2, 3)", [](const Tensor& w) { init::uniform(w, -2, 3); }, {67, 53}, -2, 3},
        Case{"xavier", [](const Tensor& w) { init::xavier_uniform(w); }, kernel, -xavier, xavier},
        Case{"xavier with a gain", [](const Tensor& w) { init::xavier_uniform(w, 3); }, kernel, -3 * xavier,
             3 * xavier},
        Case{"kaiming",
             [](const Tensor& w) { init::kaiming_uniform(w); },
             {67, 53},
             -std::sqrt(6.0 / 53),
             std::sqrt(6.0 / 53)},
        Case{"kaiming with options",
             [](const Tensor& w) { init::kaiming_uniform(w, {.a = 0.5, .mode = init::FanMode::kFanOut}); }, kernel,
             -kaiming, kaiming}}) {
    SCOPED_TRACE(one.name);
    const Numbers values = values_after(one.change, one.dims);
    EXPECT_GE(*std::min_element(values.begin(), values.end()), one.low);
    EXPECT_LE(*std::max_element(values.begin(), values.end()), one.high);
    EXPECT_LT(distance(values, [&](double x) { return (x - one.low) / (one.high - one.low); }), 1.95);
  }
}

TEST(Init, NormalOnesHaveTheDeviationsOfTheirFans) {
  const Dims kernel{13, 7, 3, 5};
  struct Case {
    const char* name;
    Change change;
    Dims dims;
    double mean, deviation;
  };
  for (const Case& one :
       {Case{"normal", [](const Tensor& w) { init::normal(w); }, {67, 53}, 0, 1},
        Case{"normal with options", [](const Tensor& w) { init::normal(w, -1, 0.25); }, {67, 53}, -1, 0.25},
        Case{"xavier", [](const Tensor& w) { init::xavier_normal(w, 0.5); }, kernel, 0, 0.5 * std::sqrt(2.0 / 300)},
        Case{"kaiming", [](const Tensor& w) { init::kaiming_normal(w, {.nonlinearity = "tanh"}); }, kernel, 0,
             5.0 / 3.0 / std::sqrt(105.0)},
        Case{"kaiming with fan_out",
             [](const Tensor& w) { init::kaiming_normal(w, {.mode = init::FanMode::kFanOut, .nonlinearity = "relu"}); },
             {67, 53},
             0,
             std::sqrt(2.0 / 67)}}) {
    SCOPED_TRACE(one.name);
    const Numbers values = values_after(one.change, one.dims);
    EXPECT_LT(distance(values, [&](double x) { return normal_below((x - one.mean) / one.deviation); }), 1.95);
  }
}

TEST(Init, TruncatedNormalHasTheDistributionWithinItsLimits) {
  for (const auto& [mean, deviation, low, high] :
       {std::tuple(0.0, 1.0, -2.0, 2.0), std::tuple(0.5, 2.0, -1.0, 0.75), std::tuple(0.0, 1.0, 2.5, 9.0)}) {
    SCOPED_TRACE(fmt::format("mean {} deviation {} in [{}, {}]", mean, deviation, low, high));
    const Numbers values =
        values_after([=](const Tensor& w) { init::trunc_normal(w, mean, deviation, low, high); }, {101, 79});
    EXPECT_GE(*std::min_element(values.begin(), values.end()), low);
    EXPECT_LE(*std::max_element(values.begin(), values.end()), high);
    const double below_low = normal_below((low - mean) / deviation);
    const double within = normal_below((high - mean) / deviation) - below_low;
    EXPECT_LT(distance(values, [&](double x) { return (normal_below((x - mean) / deviation) - below_low) / within; }),
              1.95);
  }
  // Limits far away leave no value at them.
  const Numbers small = values_after([](const Tensor& w) { init::trunc_normal(w, 0, 0.02); }, {211, 199}, DType::kF32);
  EXPECT_LT(largest(small), 6 * 0.02);
  EXPECT_NEAR(deviation_of(small), 0.02, 0.0004);
}

TEST(Init, EyeAndDiracAreExact) {
  EXPECT_EQ(values_after([](const Tensor& w) { init::eye(w); }, {2, 3}), (Numbers{1, 0, 0, 0, 1, 0}));
  const auto dirac = values_after([](const Tensor& w) { init::dirac(w); }, {3, 2, 3});
  EXPECT_EQ(dirac, (Numbers{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}));
  const auto grouped = values_after([](const Tensor& w) { init::dirac(w, 2); }, {4, 3, 1, 2});
  Numbers expected(24, 0.0);  // in each group, channel i copies input channel i; the middle of two columns is column 1
  for (const std::size_t channel : {0, 1, 2, 3}) expected[channel * 6 + (channel % 2) * 2 + 1] = 1;
  EXPECT_EQ(grouped, expected);
  EXPECT_EQ(values_after([](const Tensor& w) { init::ones(w); }, {3}), (Numbers{1, 1, 1}));
  EXPECT_EQ(values_after([](const Tensor& w) { init::constant(w, 0.5); }, {2}), (Numbers{0.5, 0.5}));
}

// Rows of [rows, columns] have the products gain^2 I, or the columns if they are fewer.
void expect_orthogonal(const Numbers& x, std::size_t rows, double gain, double tolerance) {
  const std::size_t columns = x.size() / rows;
  const bool by_row = rows <= columns;
  const std::size_t vectors = by_row ? rows : columns;
  const std::size_t length = by_row ? columns : rows;
  const auto element = [&](std::size_t vector, std::size_t i) {
    return by_row ? x[vector * columns + i] : x[i * columns + vector];
  };
  double worst = 0;
  for (std::size_t a = 0; a < vectors; ++a)
    for (std::size_t b = 0; b <= a; ++b) {
      double sum = 0;
      for (std::size_t i = 0; i < length; ++i) sum += element(a, i) * element(b, i);
      worst = std::max(worst, std::abs(sum - (a == b ? gain * gain : 0.0)));
    }
  EXPECT_LE(worst, tolerance) << rows << " x " << columns;
}

TEST(Init, OrthogonalMatricesAreOrthogonal) {
  for (const Dims& dims :
       {Dims{5, 3}, Dims{3, 5}, Dims{1, 7}, Dims{7, 2, 3}, Dims{131, 67}, Dims{67, 131}, Dims{97, 97}}) {
    const auto rows = static_cast<std::size_t>(dims.front());
    expect_orthogonal(values_after([](const Tensor& w) { init::orthogonal(w); }, dims), rows, 1, 1e-11);
    expect_orthogonal(values_after([](const Tensor& w) { init::orthogonal(w, 0.3); }, dims, DType::kF32), rows, 0.3,
                      1e-6);
  }
}

// Q^T A = R for the normal matrix A with the same key.
TEST(Init, OrthogonalIsTheQrDecompositionOfANormalMatrix) {
  constexpr std::size_t kRows = 79, kColumns = 71;
  const Dims dims{static_cast<std::int64_t>(kRows), static_cast<std::int64_t>(kColumns)};
  const Numbers a = values_after([](const Tensor& w) { init::normal(w); }, dims);
  const Numbers q = values_after([](const Tensor& w) { init::orthogonal(w); }, dims);
  for (std::size_t i = 0; i < kColumns; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double r = 0;
      for (std::size_t k = 0; k < kRows; ++k) r += q[k * kColumns + i] * a[k * kColumns + j];
      if (i == j)
        EXPECT_GT(r, 1e-3) << i;
      else
        EXPECT_NEAR(r, 0, 1e-10) << i << " " << j;
    }
}

TEST(Init, ValuesDoNotDependOnTheMesh) {
  struct Case {
    const char* name;
    Change change;
    Dims dims;
    double tolerance;
  };
  const std::vector<Case> cases{
      {"xavier_normal", [](const Tensor& w) { init::xavier_normal(w); }, {13, 7}, 1e-14},
      {"trunc_normal", [](const Tensor& w) { init::trunc_normal(w); }, {13, 7}, 1e-12},
      {"eye", [](const Tensor& w) { init::eye(w); }, {5, 7}, 0},
      {"dirac", [](const Tensor& w) { init::dirac(w); }, {5, 3, 3}, 0},
      {"orthogonal", [](const Tensor& w) { init::orthogonal(w); }, {7, 13}, 1e-10},
      {"orthogonal in panels", [](const Tensor& w) { init::orthogonal(w); }, {97, 71}, 1e-8},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const Numbers expected = values_after(one.change, one.dims);
    for (const auto& [ranks, layout] : {std::pair(2, "a=2"), std::pair(3, "a=3"), std::pair(6, "b=2,a=3")}) {
      SCOPED_TRACE(layout);
      std::mutex mutex;
      Numbers values;
      on_ranks(ranks, [&, layout = layout](int rank) {
        const Mesh mesh = Mesh::parse(layout);
        manual_seed(5);
        const One model(one.dims);
        std::vector<PartitionSpec::Entry> spec(one.dims.size());
        spec[static_cast<std::size_t>(mesh.axes().size() - 1)] = PartitionSpec::Entry(SpecEntry{"a"});
        mark_sharding(model.weight, mesh, PartitionSpec(std::move(spec)));
        one.change(model.weight);
        Numbers mine = values_of(model.weight);
        const std::scoped_lock lock(mutex);
        if (rank == 0) values = std::move(mine);
      });
      expect_near(values, expected, one.tolerance);
    }
  }
}

TEST(Init, ALayerOfAStackIsAParameterOfItsOwn) {
  const FreshRank rank;
  ScanLayers<One> layers(3, Dims{6, 5}, DType::kF64, Dims{});
  init::orthogonal(layers.layer().weight);
  const Numbers all = values_of(layers.layer().weight);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(30 * i);
    expect_orthogonal(Numbers(begin, begin + 30), 6, 1, 1e-11);
  }
  EXPECT_NE(Numbers(all.begin(), all.begin() + 30), Numbers(all.begin() + 30, all.begin() + 60));
  ScanLayers<One> others(70, Dims{11, 7}, DType::kF64, Dims{});
  init::kaiming_normal(others.layer().weight, {.nonlinearity = "linear"});
  EXPECT_NEAR(deviation_of(values_of(others.layer().weight)), 1 / std::sqrt(7.0), 0.015);
}

TEST(Init, FansAreThoseOfTheShapeInFiles) {
  const FreshRank rank;
  const One heads({4, 13, 19}, DType::kF64, {52, 19});  // in memory, dim 0 is the head
  init::xavier_uniform(heads.weight);
  EXPECT_LE(largest(values_of(heads.weight)), std::sqrt(6.0 / 71));
  EXPECT_GT(largest(values_of(heads.weight)), 0.95 * std::sqrt(6.0 / 71));
  const One square({2, 3, 6}, DType::kF64, {6, 6});
  init::eye(square.weight);
  Numbers expected(36, 0.0);
  for (std::size_t i = 0; i < 6; ++i) expected[7 * i] = 1;
  EXPECT_EQ(values_of(square.weight), expected);
}

TEST(Init, AppliesToTheModulesOfAClass) {
  const FreshRank rank;
  Sequential model(make<Linear>(7, 5), make<ReLU>(), make<Linear>(5, 3));
  model.apply([](Module& module) {
    if (auto* linear = dynamic_cast<Linear*>(&module)) {
      init::constant(linear->weight(), 2);
      init::zeros(linear->bias());
    }
  });
  const Tensor y = model(Tensor::from<float>({1, 7}, {1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{140, 140, 140}));
}

// The new value is part of the step, and the next values come from the next key.
TEST(Init, ParametersWithAValueAreAssigned) {
  const FreshRank rank;
  One model({3, 5});
  EXPECT_EQ(values_of(model.weight), Numbers(15, 0.0));
  init::normal(model.weight);
  const Numbers first = values_of(model.weight);
  init::normal(model.weight);
  EXPECT_NE(values_of(model.weight), first);
  EXPECT_GT(largest(first), 0.5);
  init::eye(model.weight);
  EXPECT_EQ(values_of(model.weight), (Numbers{1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0}));
  EXPECT_TRUE(model.weight.requires_grad());
}

TEST(Init, WrongShapesAreErrors) {
  const FreshRank rank;
  const One vector({3});
  expect_error([&] { init::xavier_uniform(vector.weight); },
               "init::xavier_uniform needs a parameter [out, in, …], but weight is f64[3]");
  expect_error([&] { init::eye(vector.weight); }, "init::eye needs a matrix, got f64[3]");
  expect_error([&] { init::orthogonal(vector.weight); },
               "init::orthogonal needs a parameter of at least two dims, got f64[3]");
  const One kernel({3, 2, 1});
  expect_error([&] { init::dirac(kernel.weight, 2); },
               "init::dirac: the 3 output channels are no multiple of 2 groups");
  expect_error([&] { init::trunc_normal(kernel.weight, 0, 1, 2, 1); },
               "truncated_normal: the lower limit must be below the upper one, got 2 and 1");
  expect_error([&] { init::zeros(Tensor()); }, "init::zeros: the parameter is null");
}

}  // namespace
}  // namespace tessera::nn
