// SPDX-License-Identifier: Apache-2.0
// Layers that move elements, pools of sequences, instance normalization and Bilinear equal their definitions.
#include <gtest/gtest.h>

#include "nn/layer_checks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/linear.h"
#include "tessera/nn/normalization.h"
#include "tessera/nn/pools.h"
#include "tessera/nn/shaping.h"

namespace tessera::nn {
namespace {

// The values of `result` are those of `source` at the places that `place` returns; -1: 0.
void expect_moved(const Tensor& result, const Tensor& source, const std::function<std::int64_t(const Dims&)>& place) {
  const Numbers out = values_of(result), in = values_of(source);
  std::size_t i = 0;
  for_each_index(result.dims(), [&](const Dims& index) {
    const std::int64_t from = place(index);
    EXPECT_EQ(out[i++], from < 0 ? 0 : in[static_cast<std::size_t>(from)]);
  });
}

TEST(Shaping, FlattenMergesAndUnflattenDivides) {
  const FreshRank rank;
  const Tensor x = numbers({2, 3, 5, 7});
  EXPECT_EQ(Flatten()(x).dims(), (Dims{2, 105}));
  EXPECT_EQ(Flatten(0, 1)(x).dims(), (Dims{6, 5, 7}));
  EXPECT_EQ(Flatten(-2)(x).dims(), (Dims{2, 3, 35}));
  EXPECT_EQ(Unflatten(1, {3, 5, 7})(Flatten()(x)).dims(), x.dims());
  EXPECT_EQ(Unflatten(-1, {5, -1})(Flatten(2)(x)).dims(), x.dims());
  EXPECT_EQ(values_of(Unflatten(1, {3, 5, 7})(Flatten()(x))), values_of(x));
  EXPECT_EQ(Unflatten(1, {3, 0})(Tensor::zeros(Type::array(kF64, {2, 0}))).dims(), (Dims{2, 3, 0}));
}

TEST(Shaping, PixelShuffleMovesChannelsToPixels) {
  const FreshRank rank;
  const Tensor x = numbers({2, 18, 2, 5});
  const Tensor y = PixelShuffle(3)(x);
  ASSERT_EQ(y.dims(), (Dims{2, 2, 6, 15}));
  expect_moved(y, x, [](const Dims& o) {
    const std::int64_t channel = o[1] * 9 + o[2] % 3 * 3 + o[3] % 3;
    return ((o[0] * 18 + channel) * 2 + o[2] / 3) * 5 + o[3] / 3;
  });
}

TEST(Shaping, UpsampleRepeatsPixels) {
  const FreshRank rank;
  const Tensor x = numbers({2, 3, 2, 5});
  const Tensor y = Upsample({3, 2})(x);
  ASSERT_EQ(y.dims(), (Dims{2, 3, 6, 10}));
  expect_moved(y, x, [](const Dims& o) { return ((o[0] * 3 + o[1]) * 2 + o[2] / 3) * 5 + o[3] / 2; });
  EXPECT_EQ(Upsample(2)(x).dims(), (Dims{2, 3, 4, 10}));
}

TEST(Shaping, ZeroPad2dAddsAndRemovesRowsAndColumns) {
  const FreshRank rank;
  const Tensor x = numbers({2, 3, 4, 5});
  const Tensor y = ZeroPad2d({1, 2, 3, -1})(x);  // left, right, top, bottom
  ASSERT_EQ(y.dims(), (Dims{2, 3, 6, 8}));
  expect_moved(y, x, [](const Dims& o) -> std::int64_t {
    const std::int64_t h = o[2] - 3, w = o[3] - 1;
    return h < 0 || w < 0 || w >= 5 ? -1 : ((o[0] * 3 + o[1]) * 4 + h) * 5 + w;
  });
  EXPECT_EQ(ZeroPad2d(2)(x).dims(), (Dims{2, 3, 8, 9}));
}

TEST(PoolsOfSequences, EqualTheDefinition) {
  const FreshRank rank;
  const Tensor x = Tensor::from<double>({1, 1, 5}, Numbers{1, 5, 2, 4, 3});
  EXPECT_EQ(values_of(MaxPool1d(2)(x)), (Numbers{5, 4}));
  EXPECT_EQ(values_of(MaxPool1d(3, 2, 1)(x)), (Numbers{5, 5, 4}));
  EXPECT_EQ(values_of(MaxPool1d({.kernel_size = 2, .ceil_mode = true})(x)), (Numbers{5, 4, 3}));
  EXPECT_EQ(values_of(MaxPool1d({.kernel_size = 2, .stride = 1, .dilation = 3})(x)), (Numbers{4, 5}));
  EXPECT_EQ(values_of(AvgPool1d(2)(x)), (Numbers{3, 3}));
  EXPECT_EQ(values_of(AvgPool1d(3, 2, 1)(x)), (Numbers{2, 11.0 / 3, 7.0 / 3}));
  EXPECT_EQ(values_of(AvgPool1d({.kernel_size = 3, .stride = 2, .padding = 1, .count_include_pad = false})(x)),
            (Numbers{3, 11.0 / 3, 3.5}));
  // Windows [0, 2), [1, 4), [3, 5).
  expect_near(values_of(AdaptiveAvgPool1d(3)(x)), {3, 11.0 / 3, 3.5});
  expect_near(values_of(AdaptiveAvgPool1d(1)(x)), {3});
}

TEST(PoolsOfSequences, EqualThoseOfImagesOfOneRow) {
  const FreshRank rank;
  const Tensor x = numbers({2, 3, 11}), image = x.unsqueeze(2);
  const auto as_sequence = [](const Tensor& y) { return values_of(y.squeeze(2)); };
  expect_near(values_of(MaxPool1d(4, 3, 2)(x)), as_sequence(MaxPool2d({1, 4}, {1, 3}, {0, 2})(image)));
  expect_near(values_of(AvgPool1d(4, 3, 2)(x)), as_sequence(AvgPool2d({1, 4}, {1, 3}, {0, 2})(image)));
  expect_near(values_of(AdaptiveAvgPool1d(4)(x)), as_sequence(AdaptiveAvgPool2d({1, 4})(image)));
}

TEST(InstanceNorm, NormalizesEachChannelOfASample) {
  const FreshRank rank;
  InstanceNorm2d norm(3, {.epsilon = 0.01, .affine = true, .dtype = kF64});
  vary_parameters(norm);
  const Tensor x = numbers({2, 3, 4, 5});
  const Numbers in = values_of(x), weight = values_of(norm.weight()), bias = values_of(norm.bias());
  Numbers expected(in.size()), plain(in.size());
  for (std::size_t row = 0; row < 6; ++row) {
    double average = 0, variance = 0;
    for (std::size_t i = row * 20; i < row * 20 + 20; ++i) average += in[i] / 20;
    for (std::size_t i = row * 20; i < row * 20 + 20; ++i) variance += std::pow(in[i] - average, 2) / 20;
    for (std::size_t i = row * 20; i < row * 20 + 20; ++i) {
      plain[i] = (in[i] - average) / std::sqrt(variance + 0.01);
      expected[i] = plain[i] * weight[row % 3] + bias[row % 3];
    }
  }
  expect_near(values_of(norm(x)), expected);
  InstanceNorm1d without(3, {.epsilon = 0.01, .dtype = kF64});
  EXPECT_TRUE(without.parameters().empty());
  expect_near(values_of(without(x.reshape({2, 3, 20}))), plain);
  EXPECT_EQ(names_of(norm), (std::vector<std::string>{"weight 3", "bias 3"}));
}

TEST(Bilinear, EqualsTheDefinition) {
  const FreshRank rank;
  Bilinear layer(3, 4, 2, {.dtype = kF64});
  const Tensor x1 = numbers({5, 2, 3}), x2 = numbers({5, 2, 4}, 2);
  const Numbers a = values_of(x1), b = values_of(x2), w = values_of(layer.weight()), bias = values_of(layer.bias());
  Numbers expected;
  for (std::size_t row = 0; row < 10; ++row)
    for (std::size_t o = 0; o < 2; ++o) {
      double total = bias[o];
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t j = 0; j < 4; ++j) total += a[row * 3 + i] * w[(o * 3 + i) * 4 + j] * b[row * 4 + j];
      expected.push_back(total);
    }
  expect_near(values_of(layer(x1, x2)), expected);
  EXPECT_EQ(names_of(layer), (std::vector<std::string>{"weight 2x3x4", "bias 2"}));
  tessera::expect_gradients([&] { return weighted_sum(layer(x1, x2)); }, variables_of(layer, {x1, x2}));
}

// Images and sequences through all these layers.
class SmallNet : public Callable<SmallNet> {
 public:
  SmallNet() {
    register_module("norm", norm_);
    register_module("sequence_norm", sequence_norm_);
    register_module("bilinear", bilinear_);
  }
  Tensor forward(const Tensor& x) {                                                     // [n, 8, 3, 5]
    const Tensor image = PixelShuffle(2)(norm_(x));                                     // [n, 2, 6, 10]
    const Tensor wide = ZeroPad2d({1, 0, 2, 1})(Upsample({1, 2})(image));               // [n, 2, 9, 21]
    const Tensor sequence = sequence_norm_(Flatten(2)(wide));                           // [n, 2, 189]
    const Tensor pooled = MaxPool1d(3, 2, 1)(sequence) + AvgPool1d(3, 2, 1)(sequence);  // [n, 2, 95]
    const Tensor short_one = AdaptiveAvgPool1d(7)(pooled);
    return weighted_sum(bilinear_(short_one, Unflatten(1, {2, 7})(Flatten()(short_one))));
  }

 private:
  InstanceNorm2d norm_{8, {.affine = true, .dtype = kF64}};
  InstanceNorm1d sequence_norm_{2, {.affine = true, .dtype = kF64}};
  Bilinear bilinear_{7, 7, 3, {.dtype = kF64}};
};

TEST(SmallLayers, GradientsEqualFiniteDifferences) {
  const FreshRank rank;
  SmallNet net;
  const Tensor x = numbers({2, 8, 3, 5});
  tessera::expect_gradients([&] { return net(x); }, variables_of(net, {x}));
}

Numbers trained_small_net(const std::string& mesh, const std::string& spec) {
  SmallNet net;
  return trained_values(net, [&](int step) {
    const Tensor x = varied({5, 8, 3, 5}, step);
    mark_sharding(x, Mesh::parse(mesh), PartitionSpec::parse(spec));
    return net(x) * 0.01;
  });
}

TEST(SmallLayers, TrainAsOneRankOnEveryMesh) {
  Numbers expected;
  {
    const FreshRank rank;
    expected = trained_small_net("data=1,model=1", "data,-,-,-");
  }
  for (const char* const spec : {"data,-,-,-", "data,model,-,-", "-,-,model,data", "-,data,-,model"})
    on_ranks(6, [&](int) { expect_close(trained_small_net("data=2,model=3", spec), expected, spec, 1e-8); });
}

TEST(SmallLayers, ErrorsNameTheArgument) {
  const FreshRank rank;
  const Tensor image = numbers({2, 6, 3, 5});
  expect_error(
      [&] {
        (void)Unflatten(1, {4, 2})(image);
      },
      "Unflatten: the sizes {4, 2} do not multiply to 6, the size of dim 1 of f64[2,6,3,5]");
  expect_error([&] { (void)Unflatten(4, {4, 2})(image); }, "Unflatten: f64[2,6,3,5] has no dim 4");
  expect_error(
      [&] {
        (void)Unflatten(1, {-2, -3})(image);
      },
      "Unflatten: a size must be at least 0, or -1 for the rest, got {-2, -3}");
  expect_error([&] { (void)PixelShuffle(2)(image); },
               "PixelShuffle: the channels must be a multiple of 4, got f64[2,6,3,5]");
  expect_error([] { Upsample({2, 0}); }, "Upsample: scale_factor needs one or two positive integers, got {2, 0}");
  expect_error([] { ZeroPad2d({1, 2}); }, "ZeroPad2d needs one number or {left, right, top, bottom}, got 2 numbers");
  expect_error([] { AdaptiveAvgPool1d(0); }, "AdaptiveAvgPool1d: output_size must be positive, got 0");
  expect_error([&] { (void)MaxPool1d(2)(image); }, "max_pool1d: a sequence [n, c, l] is needed, got f64[2,6,3,5]");
  expect_error([&] { (void)InstanceNorm2d(3)(image); },
               "InstanceNorm2d(3) takes a tensor of 4 dims with 3 channels in dim 1, got f64[2,6,3,5]");
  expect_error(
      [] {
        (void)InstanceNorm1d(3)(numbers({2, 3, 1}));
      },
      "InstanceNorm1d needs more than one value for each channel of a sample, got f64[2,3,1]");
  expect_error(
      [] {
        (void)GroupNorm(2, 2)(numbers({1, 2}));
      },
      "GroupNorm needs more than one value for each of 2 groups, got f64[1,2]");
  EXPECT_EQ(values_of(GroupNorm(2, 2, {.dtype = kF64})(numbers({2, 2}))), Numbers(4, 0));
  expect_error(
      [&] {
        (void)Bilinear(3, 4, 2)(numbers({5, 3}), numbers({6, 4}));
      },
      "Bilinear needs x1 [..., 3] and x2 [..., 4] with equal further dims, got f64[5,3] and f64[6,4]");
}

}  // namespace
}  // namespace tessera::nn
