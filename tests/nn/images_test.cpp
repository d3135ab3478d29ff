// SPDX-License-Identifier: Apache-2.0
// Layers for images: values computed by hand, gradients by finite differences, and the same results for all shardings.
#include "tessera/nn/images.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "frontend/on_ranks.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/optim/optimizer.h"

namespace tessera::nn {
namespace {

using Numbers = std::vector<double>;

Tensor image(const Dims& dims) {
  Numbers values;
  for (std::int64_t i = 0; i < product(dims); ++i) values.push_back(std::sin(static_cast<double>(i * i % 97)));
  return Tensor::from<double>(dims, values);
}
Tensor row(const Numbers& values) { return Tensor::from<double>({1, 1, 1, isize(values)}, values); }

TEST(Images, AConvolutionWithPyTorchsArgumentsEqualsItsDefinition) {
  const FreshRank rank;
  constexpr std::int64_t kIn = 4, kOut = 6, kGroups = 2, kHeight = 7, kWidth = 6;
  Conv2d layer(kIn, kOut, {3, 2},
               {.stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 3}, .groups = kGroups, .dtype = DType::kF64});
  const Tensor x = image({2, kIn, kHeight, kWidth});
  const Tensor y = layer(x);
  const Numbers in = x.to_vector<double>(), w = layer.weight().to_vector<double>(),
                b = layer.bias().to_vector<double>();
  ASSERT_EQ(layer.weight().dims(), Dims({kOut, kIn / kGroups, 3, 2}));
  ASSERT_EQ(y.dims(), Dims({2, kOut, 3, 7}));  // (7+2-5)/2+1, (6+4-4)/1+1
  const Numbers out = y.to_vector<double>();
  std::size_t place = 0;
  for_each_index(y.dims(), [&](const Dims& o) {
    double sum = at(b, o[1]);
    for_each_index({kIn / kGroups, 3, 2}, [&](const Dims& k) {
      const auto h = o[2] * 2 - 1 + k[1] * 2, v = o[3] - 2 + k[2] * 3;
      if (h < 0 || h >= kHeight || v < 0 || v >= kWidth) return;
      const auto c = o[1] / (kOut / kGroups) * (kIn / kGroups) + k[0];
      sum += at(in, ((o[0] * kIn + c) * kHeight + h) * kWidth + v) *
             at(w, ((o[1] * kIn / kGroups + k[0]) * 3 + k[1]) * 2 + k[2]);
    });
    EXPECT_NEAR(out[place++], sum, 1e-12);
  });
}

TEST(Images, PoolsByHand) {
  const FreshRank rank;
  const Tensor x = row({1, 5, 2, 4, 3});
  const auto max = [&](Pool2dOptions o) { return MaxPool2d(std::move(o))(x).to_vector<double>(); };
  const auto average = [&](Pool2dOptions o) { return AvgPool2d(std::move(o))(x).to_vector<double>(); };
  EXPECT_EQ(max({.kernel_size = {1, 2}}), Numbers({5, 4}));
  EXPECT_EQ(max({.kernel_size = {1, 2}, .ceil_mode = true}), Numbers({5, 4, 3}));
  EXPECT_EQ(max({.kernel_size = {1, 3}, .stride = {2}, .padding = {0, 1}}), Numbers({5, 5, 4}));
  EXPECT_EQ(max({.kernel_size = {1, 2}, .stride = {1}, .dilation = {1, 3}}), Numbers({4, 5}));
  EXPECT_EQ(average({.kernel_size = {1, 2}}), Numbers({3, 3}));
  EXPECT_EQ(average({.kernel_size = {1, 2}, .ceil_mode = true}), Numbers({3, 3, 3}));
  EXPECT_EQ(average({.kernel_size = {1, 3}, .stride = {2}, .padding = {0, 1}}), Numbers({2, 11.0 / 3, 7.0 / 3}));
  EXPECT_EQ(average({.kernel_size = {1, 3}, .stride = {2}, .padding = {0, 1}, .count_include_pad = false}),
            Numbers({3, 11.0 / 3, 3.5}));
  EXPECT_EQ(AdaptiveAvgPool2d()(x).to_vector<double>(), Numbers({3}));
  EXPECT_THROW(AdaptiveAvgPool2d({2, 0}), Error);
  EXPECT_THROW(max({.kernel_size = {1, 2}, .padding = {0, 2}}), Error);
}

TEST(Images, OneNumberIsTheSizeOfBothDims) {
  const FreshRank rank;
  const Tensor x = Tensor::iota(Type::array(DType::kF32, {2, 3, 7, 5}), 3);
  EXPECT_EQ(Conv2d(3, 4, 3, {.stride = 2, .padding = 1})(x).dims(), (Dims{2, 4, 4, 3}));
  EXPECT_EQ(Conv2d(3, 4, {3, 1}, {.padding = {1, 0}})(x).dims(), (Dims{2, 4, 7, 5}));
  EXPECT_EQ(ConvTranspose2d(3, 4, 3, {.stride = 2, .output_padding = 1})(x).dims(), (Dims{2, 4, 16, 12}));
  const Pool2dOptions same{.kernel_size = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  EXPECT_EQ(MaxPool2d(3, 2, 1)(x).to_vector<float>(), MaxPool2d(same)(x).to_vector<float>());
  EXPECT_EQ(AvgPool2d(3)(x).dims(), (Dims{2, 3, 2, 1}));
  EXPECT_EQ(AdaptiveAvgPool2d(2)(x).dims(), (Dims{2, 3, 2, 2}));
}

TEST(Images, AMaxPoolsGradientGoesToTheFirstOfTheLargestElements) {
  const FreshRank rank;
  Tensor x = row({1, 5, 2, 5, 5});
  x.set_requires_grad();
  sum(MaxPool2d({.kernel_size = {1, 2}, .stride = {1}})(x)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), Numbers({0, 2, 0, 2, 0}));
}

TEST(Images, BatchNormKeepsRunningStatistics) {
  const FreshRank rank;
  BatchNorm2d norm(1, {.epsilon = 0, .momentum = 0.25, .dtype = DType::kF64});
  const Tensor y = norm(row({1, 3, 1, 3}));  // mean 2, variance 1, unbiased variance 4/3
  EXPECT_EQ(y.to_vector<double>(), Numbers({-1, 1, -1, 1}));
  mark_step();
  EXPECT_NEAR(norm.running_mean().item(), 0.5, 1e-15);
  EXPECT_NEAR(norm.running_var().item(), 0.75 + 0.25 * 4 / 3, 1e-15);
  norm.eval();
  const double scale = 1 / std::sqrt(norm.running_var().item());
  EXPECT_NEAR(norm(row({2})).item(), (2 - 0.5) * scale, 1e-15);
  EXPECT_NEAR(norm.running_mean().item(), 0.5, 1e-15);
  std::vector<std::string> names;
  for (const auto& buffer : norm.named_buffers()) names.push_back(buffer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"running_mean", "running_var", "num_batches_tracked"}));
  EXPECT_EQ(norm.named_parameters().size(), 2U);
}

// Odd sizes, strides, groups, dilations, both kinds of pools, and a residual connection.
class Net : public Callable<Net> {
 public:
  Net() {
    add_module("first", first_);
    add_module("norm", norm_);
    add_module("second", second_);
    add_module("short", short_);
  }
  Tensor forward(const Tensor& x) {
    const Tensor h = MaxPool2d({.kernel_size = {3, 2}, .stride = {1}, .padding = {1, 0}})(relu(norm_(first_(x))));
    const Tensor y = second_(h) + short_(h);
    return mean(square(AdaptiveAvgPool2d()(AvgPool2d({.kernel_size = {2}, .ceil_mode = true})(y)) - 0.5)) + mean(y * y);
  }
  [[nodiscard]] std::string_view class_name() const override { return "Net"; }

 private:
  Conv2d first_{3, 4, {3}, {.stride = {2}, .padding = {1}, .bias = false, .dtype = DType::kF64}};
  BatchNorm2d norm_{4, {.dtype = DType::kF64}};
  Conv2d second_{4, 6, {3}, {.padding = {2}, .dilation = {2}, .groups = 2, .dtype = DType::kF64}};
  Conv2d short_{4, 6, {1}, {.dtype = DType::kF64}};
};
const Dims kImages{3, 3, 11, 7};

TEST(Images, GradientsAgreeWithFiniteDifferences) {
  const FreshRank rank;
  Net net;
  const Tensor x = image(kImages);
  net(x).backward();
  for (Tensor parameter : net.parameters()) {
    const Numbers gradient = parameter.grad().to_vector<double>();
    const Numbers start = parameter.to_vector<double>();
    for (std::size_t i = 0; i < start.size(); i += 1 + start.size() / 3) {
      constexpr double kStep = 1e-5;
      const auto loss_at = [&](double value) {
        Numbers moved = start;
        moved[i] = value;
        parameter.assign(Tensor::from<double>(parameter.dims(), moved));
        return net(x).item();
      };
      const double slope = (loss_at(start[i] + kStep) - loss_at(start[i] - kStep)) / (2 * kStep);
      EXPECT_NEAR(gradient[i], slope, 1e-7 * (1 + std::fabs(slope))) << parameter.name() << " " << i;
      parameter.assign(Tensor::from<double>(parameter.dims(), start));
    }
  }
}

// In the second step, the running statistics are stored. This must not make another program.
TEST(Images, StepsWithRunningStatisticsAreCompiledOnce) {
  on_ranks(2, [](int) {
    Net net;
    optim::AdamW optimizer(net.parameters(), {.learning_rate = 0.1});
    const Mesh mesh({{"data", device_count()}});
    std::int64_t first = 0;
    for (int step = 0; step < 3; ++step) {
      const Tensor x = image({4, 3, 11, 7});
      mark_sharding(x, mesh, {"data", {}, {}, {}});
      net(x).backward();
      optimizer.step();
      optimizer.zero_grad();
      mark_step();
      if (step == 0) first = lazy_counters().compilations;
    }
    EXPECT_EQ(lazy_counters().compilations, first);
  });
}

// Returns losses, parameters and running statistics after two steps.
Numbers trained(const std::optional<PartitionSpec>& spec) {
  Numbers out;
  Net net;
  optim::SGD optimizer(net.parameters(), {.learning_rate = 0.1});
  for (int step = 0; step < 2; ++step) {
    const Tensor x = image(kImages);
    if (spec) mark_sharding(x, Mesh({{"data", 2}, {"model", 3}}), *spec);
    const Tensor loss = net(x);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    mark_step();
    out.push_back(loss.item());
  }
  for (const auto& list : {net.named_parameters(), net.named_buffers()})
    for (const auto& [name, tensor] : list) {
      if (tensor.dtype() != DType::kF64) continue;
      const Numbers values = tensor.to_vector<double>();
      out.insert(out.end(), values.begin(), values.end());
    }
  return out;
}

TEST(Images, TrainingIsTheSameUnderDataAndSpatialSharding) {
  Numbers expected;
  {
    const FreshRank rank;
    expected = trained(std::nullopt);
  }
  EXPECT_LT(expected[1], expected[0]);
  const std::vector<PartitionSpec> specs = {{"data", {}, {}, {}},
                                            {{}, {}, "model", {}},
                                            {{}, {}, "data", "model"},
                                            {"data", {}, "model", {}},
                                            PartitionSpec::parse("-,-,data+model,-")};
  for (const PartitionSpec& spec : specs)
    on_ranks(6, [&](int) {
      const Numbers got = trained(spec);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], expected[i], 1e-11 * (1 + std::fabs(expected[i]))) << spec.str() << " " << i;
    });
}

}  // namespace
}  // namespace tessera::nn
