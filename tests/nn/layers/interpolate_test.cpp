// SPDX-License-Identifier: Apache-2.0
// Resized images equal PyTorch's definitions, computed here element by element, on every mesh.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "frontend/on_ranks.h"
#include "nn/layer_checks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/shaping.h"

namespace tessera::nn {
namespace {

using Mode = InterpolateMode;

/// The weight of element `from` of `in` elements in element `to`, where two elements of the result are `step` apart.
double linear_weight(std::int64_t from, std::int64_t to, std::int64_t in, double step, bool align_corners) {
  const auto place = static_cast<double>(to);
  const double position =
      std::clamp(align_corners ? place * step : (place + 0.5) * step - 0.5, 0.0, static_cast<double>(in - 1));
  return std::max(0.0, 1 - std::abs(position - static_cast<double>(from)));
}

double keys(double distance) {
  const double x = std::abs(distance);
  if (x <= 1) return 1.25 * x * x * x - 2.25 * x * x + 1;
  return x < 2 ? -0.75 * (x * x * x - 5 * x * x + 8 * x - 4) : 0;
}

// Elements beyond the borders are those at the borders.
double keys_weight(std::int64_t from, std::int64_t to, std::int64_t in, double step, bool align_corners) {
  const auto place = static_cast<double>(to);
  const double position = align_corners ? place * step : (place + 0.5) * step - 0.5;
  double out = 0;
  for (std::int64_t element = -3; element < in + 3; ++element)
    if (std::clamp<std::int64_t>(element, 0, in - 1) == from) out += keys(position - static_cast<double>(element));
  return out;
}

using Weight = double (*)(std::int64_t, std::int64_t, std::int64_t, double, bool);

// x [n, c, h, w], resized to [n, c, oh, ow] with the given steps.
Numbers resized(const Tensor& x, const Dims& size, std::pair<double, double> steps, bool align_corners, Weight weight) {
  const Numbers in = values_of(x);
  const std::int64_t planes = x.dim(0) * x.dim(1), h = x.dim(2), w = x.dim(3);
  Numbers out;
  for (std::int64_t p = 0; p < planes; ++p)
    for (std::int64_t i = 0; i < size[0]; ++i)
      for (std::int64_t j = 0; j < size[1]; ++j) {
        double total = 0;
        for (std::int64_t y = 0; y < h; ++y)
          for (std::int64_t z = 0; z < w; ++z)
            total += weight(y, i, h, steps.first, align_corners) * weight(z, j, w, steps.second, align_corners) *
                     in[static_cast<std::size_t>((p * h + y) * w + z)];
        out.push_back(total);
      }
  return out;
}

double step_of(std::int64_t in, std::int64_t out, bool align_corners) {
  if (!align_corners) return static_cast<double>(in) / static_cast<double>(out);
  return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
}

TEST(Interpolate, BilinearAndBicubicEqualTheirDefinitions) {
  const FreshRank rank;
  const Tensor x = numbers({2, 3, 5, 7});
  for (const bool align_corners : {false, true})
    for (const Dims& size : {Dims{11, 3}, Dims{1, 7}, Dims{10, 14}, Dims{2, 1}}) {
      SCOPED_TRACE(fmt::format("{} x {}, align_corners {}", size[0], size[1], align_corners));
      const std::pair steps{step_of(5, size[0], align_corners), step_of(7, size[1], align_corners)};
      const Tensor linear = interpolate(x, {.size = size, .mode = Mode::kBilinear, .align_corners = align_corners});
      EXPECT_EQ(linear.dims(), (Dims{2, 3, size[0], size[1]}));
      expect_near(values_of(linear), resized(x, size, steps, align_corners, linear_weight));
      const Tensor cubic = interpolate(x, {.size = size, .mode = Mode::kBicubic, .align_corners = align_corners});
      expect_near(values_of(cubic), resized(x, size, steps, align_corners, keys_weight));
    }
}

// Without recompute_scale_factor, positions come from the factor, not from the rounded size.
TEST(Interpolate, AFactorDeterminesThePositions) {
  const FreshRank rank;
  const Tensor x = numbers({1, 2, 5, 7});
  const InterpolateOptions by_factor{.scale_factor = {1.7, 0.6}, .mode = Mode::kBilinear};
  expect_near(values_of(interpolate(x, by_factor)), resized(x, {8, 4}, {1 / 1.7, 1 / 0.6}, false, linear_weight));
  InterpolateOptions recomputed = by_factor;
  recomputed.recompute_scale_factor = true;
  expect_near(values_of(interpolate(x, recomputed)), resized(x, {8, 4}, {5.0 / 8, 7.0 / 4}, false, linear_weight));
}

// The numbers are those of torch.nn.functional.interpolate; those of kNearest are those of its large images, as
// documented.
TEST(Interpolate, AFactorThatKeepsASizeCopiesInSomeModes) {
  const FreshRank rank;
  const Tensor line = Tensor::from<double>({1, 1, 4}, Numbers{0, 1, 2, 3});
  const Tensor image = Tensor::from<double>({1, 1, 2, 4}, Numbers{0, 1, 2, 3, 4, 5, 6, 7});
  const auto by = [](const Tensor& x, const std::vector<double>& factors, Mode mode) {
    return values_of(interpolate(x, {.scale_factor = factors, .mode = mode}));
  };
  expect_near(by(line, {1.2}, Mode::kLinear), {0, 1, 2, 3});
  EXPECT_EQ(by(line, {1.2}, Mode::kNearest), (Numbers{0, 0, 1, 2}));
  EXPECT_EQ(by(line, {1.2}, Mode::kNearestExact), (Numbers{0, 1, 2, 2}));
  EXPECT_EQ(by(image, {1.7, 1.2}, Mode::kNearest), (Numbers{0, 0, 1, 2, 0, 0, 1, 2, 4, 4, 5, 6}));
  const double low = 1.5294117647058825, high = 3.882352941176471;
  expect_near(by(image, {1.7, 1.2}, Mode::kBilinear),
              {0, 1, 2, 3, low, low + 1, low + 2, low + 3, high, high + 1, high + 2, high + 3});
  const Tensor row = Tensor::from<double>({1, 1, 1, 3}, Numbers{0, 1, 2});
  EXPECT_EQ(by(row, {1.3, 2.3}, Mode::kNearest), (Numbers{0, 0, 0, 1, 1, 2}));
  const InterpolateOptions recomputed{.scale_factor = {1.3, 2.3}, .recompute_scale_factor = true};
  EXPECT_EQ(values_of(interpolate(row, recomputed)), (Numbers{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(by(row.reshape({1, 1, 3}), {2.3}, Mode::kNearest), (Numbers{0, 0, 0, 1, 1, 2}));
}

TEST(Interpolate, NearestCopiesElements) {
  const FreshRank rank;
  const Tensor x = Tensor::from<double>({1, 1, 5}, Numbers{0, 1, 2, 3, 4});
  const auto nearest = [&](const InterpolateOptions& options) { return values_of(interpolate(x, options)); };
  EXPECT_EQ(nearest({.size = {10}}), (Numbers{0, 0, 1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(nearest({.size = {7}}), (Numbers{0, 0, 1, 2, 2, 3, 4}));  // floor(5 i / 7)
  EXPECT_EQ(nearest({.size = {3}}), (Numbers{0, 1, 3}));
  EXPECT_EQ(nearest({.size = {3}, .mode = Mode::kNearestExact}), (Numbers{0, 2, 4}));  // floor(5 (i + 1/2) / 3)
  EXPECT_EQ(nearest({.scale_factor = {0.5}}), (Numbers{0, 2}));
  EXPECT_EQ(nearest({.scale_factor = {1}}), (Numbers{0, 1, 2, 3, 4}));
  const Tensor ids = interpolate(Tensor::from<std::int32_t>({1, 1, 3}, {4, 5, 6}), {.size = {5}});
  EXPECT_EQ(ids.to_vector<std::int32_t>(), (std::vector<std::int32_t>{4, 4, 5, 5, 6}));
  EXPECT_EQ(interpolate(numbers({2, 3, 4, 5}), {.size = {6, 10}}).dims(), (Dims{2, 3, 6, 10}));
}

TEST(Interpolate, SequencesAndVolumesAreImagesInOneDim) {
  const FreshRank rank;
  const Tensor x = numbers({2, 3, 7});
  const Numbers line = values_of(interpolate(x, {.size = {11}, .mode = Mode::kLinear}));
  const Tensor image = interpolate(x.unsqueeze(2), {.size = {1, 11}, .mode = Mode::kBilinear});
  expect_near(line, values_of(image));
  const Tensor volume =
      interpolate(x.unsqueeze(2).unsqueeze(2), {.size = {1, 1, 11}, .mode = Mode::kTrilinear, .align_corners = false});
  expect_near(line, values_of(volume));
  // The order of the dims: each dim of a volume is resized by itself.
  const Tensor cube = numbers({1, 2, 3, 4, 5});
  const Tensor all = interpolate(cube, {.size = {5, 3, 7}, .mode = Mode::kTrilinear});
  const Tensor depth = interpolate(cube.reshape({1, 2, 3, 20}), {.size = {5, 20}, .mode = Mode::kBilinear});
  const Tensor rest = interpolate(depth.reshape({1, 10, 4, 5}), {.size = {3, 7}, .mode = Mode::kBilinear});
  expect_near(values_of(all), values_of(rest));
}

TEST(Interpolate, UpsampleIsTheModule) {
  const FreshRank rank;
  const Tensor x = numbers({2, 3, 5, 7});
  const InterpolateOptions options{.scale_factor = {2}, .mode = Mode::kBilinear, .align_corners = true};
  EXPECT_EQ(values_of(Upsample(options)(x)), values_of(interpolate(x, options)));
}

TEST(Interpolate, HalfPrecisionIsRoundedOnce) {
  const FreshRank rank;
  const Tensor x = numbers({1, 2, 5, 7}).to(DType::kBF16);
  const InterpolateOptions options{.size = {11, 3}, .mode = Mode::kBicubic};
  const Tensor narrow = interpolate(x, options);
  EXPECT_EQ(narrow.dtype(), DType::kBF16);
  EXPECT_EQ(values_of(narrow.to(kF64)), values_of(interpolate(x.to(kF32), options).to(DType::kBF16).to(kF64)));
}

TEST(PixelUnshuffle, IsTheInverseOfPixelShuffle) {
  const FreshRank rank;
  const Tensor x = numbers({2, 18, 2, 5});
  EXPECT_EQ(values_of(PixelUnshuffle(3)(PixelShuffle(3)(x))), values_of(x));
  EXPECT_EQ(PixelUnshuffle(2)(numbers({2, 3, 4, 6})).dims(), (Dims{2, 12, 2, 3}));
}

// A loss of all modes, which are sums and copies of elements, and its gradient.
Tensor loss_of_modes(const Tensor& x) {
  Tensor out = weighted_sum(interpolate(x, {.size = {11, 3}, .mode = Mode::kBilinear}));
  out = out + weighted_sum(interpolate(x, {.size = {8, 9}, .mode = Mode::kBilinear, .align_corners = true}));
  out = out + weighted_sum(interpolate(x, {.scale_factor = {1.5}, .mode = Mode::kBicubic}));
  out = out + weighted_sum(interpolate(x, {.size = {3, 14}}));
  return out + weighted_sum(PixelUnshuffle(2)(interpolate(x, {.size = {6, 8}, .mode = Mode::kNearestExact})));
}

TEST(Interpolate, GradientsEqualFiniteDifferences) {
  const FreshRank rank;
  const Tensor x = numbers({2, 3, 5, 7});
  tessera::expect_gradients([&] { return loss_of_modes(x); }, {x});
}

TEST(Interpolate, DoesNotDependOnTheMesh) {
  const auto values = [](const char* layout, const char* spec) {
    const Mesh mesh = Mesh::parse(layout);
    Tensor x = numbers({2, 3, 5, 7}).set_requires_grad();
    mark_sharding(x, mesh, PartitionSpec::parse(spec));
    const Tensor loss = loss_of_modes(x);
    loss.backward();
    mark_step();
    Numbers out = values_of(x.grad());
    out.push_back(loss.item());
    return out;
  };
  Numbers expected;
  {
    const FreshRank rank;
    expected = values("a=1", "a,-,-,-");
  }
  for (const auto& [layout, spec] :
       {std::pair("a=2", "a,-,-,-"), std::pair("a=2", "-,-,a,-"), std::pair("a=3", "-,-,-,a"),
        std::pair("a=2,b=3", "-,b,a,-"), std::pair("a=2,b=2", "-,-,a,b")})
    on_ranks(static_cast<int>(Mesh::parse(layout).device_count()), [&, layout = layout, spec = spec](int) {
      expect_close(values(layout, spec), expected, fmt::format("{} {}", layout, spec), 1e-12);
    });
}

TEST(Interpolate, ErrorsNameTheArgument) {
  const FreshRank rank;
  const Tensor x = numbers({2, 3, 5, 7});
  const auto expect = [&](const InterpolateOptions& options, const std::string& reason) {
    expect_error([&] { (void)interpolate(x, options); }, reason);
  };
  expect({}, "interpolate needs either size or scale_factor");
  expect({.size = {3}, .scale_factor = {2}}, "interpolate needs either size or scale_factor");
  expect({.size = {3, 4, 5}}, "interpolate: size needs 1 or 2 numbers, got 3");
  expect({.size = {0, 4}}, "interpolate: a size must be positive, got 0");
  expect({.scale_factor = {-1}}, "interpolate: a factor must be positive, got -1");
  expect({.scale_factor = {0.1}}, "interpolate: dim 2 of f64[2,3,5,7] would have the size 0");
  expect({.size = {3}, .mode = Mode::kLinear}, "interpolate: this mode needs 1 dims after [n, c], got f64[2,3,5,7]");
  expect({.size = {3}, .align_corners = true}, "interpolate: align_corners has no meaning if elements are copied");
  expect_error(
      [] {
        (void)interpolate(numbers({2, 3}), {.size = {3}});
      },
      "interpolate needs [n, c, l], [n, c, h, w] or [n, c, d, h, w], got f64[2,3]");
  expect_error([&] { (void)PixelUnshuffle(2)(x); },
               "PixelUnshuffle: the height and width must be multiples of 2, got f64[2,3,5,7]");
}

}  // namespace
}  // namespace tessera::nn
