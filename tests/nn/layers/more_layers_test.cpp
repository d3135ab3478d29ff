// SPDX-License-Identifier: Apache-2.0
// Dropout of channels, adaptive maxima, distances and activations equal their definitions, on every mesh.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "frontend/on_ranks.h"
#include "nn/layer_checks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/layers.h"
#include "tessera/nn/pools.h"

namespace tessera::nn {
namespace {

// The share of channels of x that `layer` sets to 0. The others must be those of x, divided by 1 - p.
template <class Layer>
double share_of_dropped(Layer& layer, const Tensor& x, double p) {
  const Numbers in = values_of(x), out = values_of(layer(x));
  const auto channels = static_cast<std::size_t>(x.dim(0) * x.dim(1));
  const std::size_t size = in.size() / channels;
  double dropped = 0;
  for (std::size_t c = 0; c < channels; ++c) {
    const bool is_dropped = out[c * size] == 0;
    dropped += is_dropped ? 1 : 0;
    for (std::size_t i = c * size; i < (c + 1) * size; ++i)
      EXPECT_NEAR(out[i], is_dropped ? 0 : in[i] / (1 - p), 1e-12) << "channel " << c;
  }
  return dropped / static_cast<double>(channels);
}

TEST(ChannelDropout, DropsCompleteChannels) {
  const FreshRank rank;
  Dropout1d one(0.3);
  Dropout2d two(0.5);
  Dropout3d three(0.8);
  EXPECT_NEAR(share_of_dropped(one, numbers({61, 53, 3}), 0.3), 0.3, 0.04);
  EXPECT_NEAR(share_of_dropped(two, numbers({61, 53, 3, 2}), 0.5), 0.5, 0.04);
  EXPECT_NEAR(share_of_dropped(three, numbers({61, 53, 1, 3, 2}), 0.8), 0.8, 0.04);
  two.eval();
  const Tensor x = numbers({2, 3, 5, 7});
  EXPECT_EQ(values_of(two(x)), values_of(x));
  Dropout2d none(0);
  EXPECT_EQ(values_of(none(x)), values_of(x));
}

TEST(ChannelDropout, GradientsFlowOnlyToTheChannelsThatRemain) {
  const FreshRank rank;
  Dropout2d layer(0.5);
  Tensor x = numbers({5, 7, 2, 3}).set_requires_grad();
  const Tensor y = layer(x);
  sum(y).backward();
  mark_step();
  const Numbers in = values_of(x), out = values_of(y), gradient = values_of(x.grad());
  for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(gradient[i], out[i] == 0 ? 0 : 2);
}

TEST(AlphaDropout, KeepsMeanAndVariance) {
  const FreshRank rank;
  manual_seed(3);
  AlphaDropout layer(0.3);
  const Tensor x = Tensor::from<double>({3, 5}, Numbers(15, 0.5));
  const double least = -1.7580993408473766;
  const double scale = 1 / std::sqrt(0.7 * (1 + least * least * 0.3));
  int dropped = 0;
  for (const double value : values_of(layer(x))) {
    const bool is_dropped = value < 0;
    dropped += is_dropped ? 1 : 0;
    EXPECT_NEAR(value, scale * ((is_dropped ? least : 0.5) - 0.3 * least), 1e-12);
  }
  EXPECT_GT(dropped, 0);
  EXPECT_LT(dropped, 15);
  const Numbers many =
      values_of(layer(random_uniform(Type::array(kF64, {301, 211})) * std::sqrt(12.0) - std::sqrt(3.0)));
  double mean = 0, square = 0;
  for (const double value : many) mean += value, square += value * value;
  EXPECT_NEAR(mean / static_cast<double>(many.size()), 0, 0.03);
  EXPECT_NEAR(square / static_cast<double>(many.size()), 1, 0.03);
  layer.eval();
  EXPECT_EQ(values_of(layer(x)), values_of(x));
}

// The largest element of each window, by PyTorch's limits of the windows.
Numbers adaptive_maxima(const Tensor& x, std::int64_t rows, std::int64_t columns) {
  const Numbers in = values_of(x);
  const std::int64_t planes = x.dim(0) * x.dim(1), h = x.dim(2), w = x.dim(3);
  const auto limit = [](std::int64_t i, std::int64_t size, std::int64_t count) {
    return (i * size + count - 1) / count;
  };
  Numbers out;
  for (std::int64_t p = 0; p < planes; ++p)
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double largest = -10;
        for (std::int64_t y = i * h / rows; y < limit(i + 1, h, rows); ++y)
          for (std::int64_t z = j * w / columns; z < limit(j + 1, w, columns); ++z)
            largest = std::max(largest, in[static_cast<std::size_t>((p * h + y) * w + z)]);
        out.push_back(largest);
      }
  return out;
}

TEST(AdaptiveMaxPool, EqualsTheDefinitionForEverySize) {
  const FreshRank rank;
  const Tensor x = numbers({2, 3, 5, 7});
  for (const auto& [rows, columns] :
       {std::pair(1, 1), std::pair(3, 4), std::pair(5, 2), std::pair(2, 7), std::pair(11, 3)}) {
    const Tensor y = AdaptiveMaxPool2d({rows, columns})(x);
    EXPECT_EQ(y.dims(), (Dims{2, 3, rows, columns}));
    EXPECT_EQ(values_of(y), adaptive_maxima(x, rows, columns));
  }
  EXPECT_EQ(values_of(AdaptiveMaxPool2d(3)(x)), adaptive_maxima(x, 3, 3));
  const Tensor line = numbers({2, 3, 11});
  EXPECT_EQ(values_of(AdaptiveMaxPool1d(4)(line)), adaptive_maxima(line.unsqueeze(2), 1, 4));
  tessera::expect_gradients([&] { return weighted_sum(AdaptiveMaxPool2d({3, 4})(x)); }, {x});
}

TEST(Distances, AreTheFunctions) {
  const FreshRank rank;
  const Tensor x = numbers({5, 3, 2}), y = numbers({5, 3, 2}, 3);
  const Numbers a = values_of(x), b = values_of(y);
  Numbers cosines, distances;
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t k = 0; k < 2; ++k) {
      double ab = 0, aa = 0, bb = 0;
      for (std::size_t j = 0; j < 3; ++j) {
        const std::size_t at = (i * 3 + j) * 2 + k;
        ab += a[at] * b[at], aa += a[at] * a[at], bb += b[at] * b[at];
      }
      cosines.push_back(ab / std::sqrt(aa * bb));
    }
  for (std::size_t i = 0; i < 15; ++i)
    distances.push_back(std::abs(a[2 * i] - b[2 * i] + 1e-3) + std::abs(a[2 * i + 1] - b[2 * i + 1] + 1e-3));
  expect_near(values_of(CosineSimilarity()(x, y)), cosines);
  PairwiseDistance distance({.p = 1, .epsilon = 1e-3, .keep_dims = true});
  EXPECT_EQ(distance(x, y).dims(), (Dims{5, 3, 1}));
  expect_near(values_of(distance(x, y)), distances);
  tessera::expect_gradients([&] { return weighted_sum(CosineSimilarity()(x, y)) + weighted_sum(distance(x, y)); },
                            {x, y});
}

TEST(MoreActivations, EqualTheirDefinitions) {
  const FreshRank rank;
  const Numbers points{-800, -7.5, -1, -0.3, 0, 0.4, 1, 5.5, 6, 7.5, 800};
  const Tensor x = Tensor::from<double>({isize(points)}, points);
  const auto expect = [&](auto&& layer, const auto& definition) {
    Numbers expected;
    for (const double point : points) expected.push_back(definition(point));
    expect_near(values_of(layer(x)), expected, 1e-12);
  };
  expect(ReLU6(), [](double v) { return std::clamp(v, 0.0, 6.0); });
  expect(Hardtanh(), [](double v) { return std::clamp(v, -1.0, 1.0); });
  expect(Hardtanh(-2, 0.5), [](double v) { return std::clamp(v, -2.0, 0.5); });
  expect(Threshold(0.3, -4), [](double v) { return v > 0.3 ? v : -4; });
  expect(CELU(2), [](double v) { return v > 0 ? v : 2 * std::expm1(v / 2); });
  expect(LogSigmoid(), [](double v) { return std::min(v, 0.0) - std::log1p(std::exp(-std::abs(v))); });
  const Tensor even = numbers({2, 4, 3});
  const Numbers in = values_of(even);
  Numbers gated;
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 6; ++j) gated.push_back(in[i * 12 + j] / (1 + std::exp(-in[i * 12 + 6 + j])));
  expect_near(values_of(GLU(1)(even)), gated);
  expect_near(values_of(Softmin(1)(even)), values_of(Softmax(1)(-even)));
}

TEST(MoreActivations, PReLUHasASlopeForEachChannel) {
  const FreshRank rank;
  PReLU one(1, 0.25, kF64);
  EXPECT_EQ(values_of(one(Tensor::from<double>({2}, {-4, 2}))), (Numbers{-1, 2}));
  PReLU layer(3, 0.25, kF64);
  EXPECT_EQ(names_of(layer), (std::vector<std::string>{"weight 3"}));
  vary_parameters(layer);
  const Tensor x = numbers({2, 3, 5});
  const Numbers in = values_of(x), slopes = values_of(layer.weight());
  Numbers expected;
  for (std::size_t i = 0; i < in.size(); ++i) expected.push_back(in[i] > 0 ? in[i] : slopes[i / 5 % 3] * in[i]);
  expect_near(values_of(layer(x)), expected);
  tessera::expect_gradients([&] { return weighted_sum(layer(x)); }, variables_of(layer, {x}));
}

// The layers with masks and windows, with their gradients.
Numbers small_layers_on(const std::string& layout, const std::string& spec) {
  manual_seed(6);
  PReLU slopes(3, 0.25, kF64);
  Dropout2d channels(0.4);
  AlphaDropout alpha(0.2);
  return trained_values(slopes, [&](int step) {
    Tensor x = varied({5, 3, 4, 7}, step);
    mark_sharding(x, Mesh::parse(layout), PartitionSpec::parse(spec));
    const Tensor y = slopes(channels(x)) + alpha(x);
    return weighted_sum(AdaptiveMaxPool2d({3, 2})(y));
  });
}

TEST(MoreLayers, DoNotDependOnTheMesh) {
  Numbers expected;
  {
    const FreshRank rank;
    expected = small_layers_on("a=1", "a,-,-,-");
  }
  for (const auto& [layout, spec] : {std::pair("a=2", "a,-,-,-"), std::pair("a=3", "-,a,-,-"),
                                     std::pair("a=2,b=3", "a,-,b,-"), std::pair("a=2,b=2", "-,-,a,b")})
    on_ranks(static_cast<int>(Mesh::parse(layout).device_count()), [&, layout = layout, spec = spec](int) {
      expect_close(small_layers_on(layout, spec), expected, fmt::format("{} {}", layout, spec), 1e-11);
    });
}

TEST(MoreLayers, ErrorsNameTheArgument) {
  const FreshRank rank;
  expect_error([] { Dropout2d(1); }, "Dropout2d: the probability must be in [0, 1), got 1");
  expect_error([] { AlphaDropout(-0.5); }, "AlphaDropout: the probability must be in [0, 1), got -0.5");
  Dropout2d layer;
  expect_error(
      [&] {
        (void)layer(numbers({2, 3, 5}));
      },
      "Dropout2d needs channels [n, c, ...] of 4 dims, got f64[2,3,5]");
  expect_error([] { Hardtanh(1, -1); }, "Hardtanh: min_val must be below max_val, got 1 and -1");
  expect_error(
      [] {
        AdaptiveMaxPool2d({0, 2});
      },
      "AdaptiveMaxPool2d: output_size needs one or two positive numbers, got {0, 2}");
  expect_error(
      [] {
        (void)AdaptiveMaxPool1d(2)(numbers({2, 3}));
      },
      "AdaptiveMaxPool1d needs a sequence [n, c, l], got f64[2,3]");
  expect_error([] { PReLU(0); }, "PReLU needs at least one slope, got 0");
}

}  // namespace
}  // namespace tessera::nn
