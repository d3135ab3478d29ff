// SPDX-License-Identifier: Apache-2.0
#include "image_sources.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tessera/base/text.h"

namespace tessera::trainer {
namespace {

// A place between two neighbours.
struct Between {
  std::int64_t low = 0;
  std::int64_t high = 0;
  float weight = 0;  // of the higher one
};

// Where the centre of a pixel of the result is, in an image of `size` pixels.
Between place_of(double at, std::int64_t size) {
  const double inside = std::clamp(at - 0.5, 0.0, static_cast<double>(size - 1));
  const auto low = static_cast<std::int64_t>(inside);
  return {low, std::min(low + 1, size - 1), static_cast<float>(inside - static_cast<double>(low))};
}

// The places of all result pixels along a dim.
std::vector<Between> places_of(double start, double extent, std::int64_t result, std::int64_t size, bool is_mirrored) {
  std::vector<Between> out;
  for (std::int64_t i = 0; i < result; ++i) {
    const std::int64_t pixel = is_mirrored ? result - 1 - i : i;
    out.push_back(place_of(start + (static_cast<double>(pixel) + 0.5) * extent / static_cast<double>(result), size));
  }
  return out;
}

// Subtracts ImageNet's means of the channels and divides by their deviations.
void normalize_channels(Literal& image, std::size_t area) {
  constexpr std::array<float, 3> kMeans = {0.485F, 0.456F, 0.406F};
  constexpr std::array<float, 3> kDeviations = {0.229F, 0.224F, 0.225F};
  auto pixels = image.mutable_data<float>();
  for (std::size_t p = 0; p < pixels.size(); ++p) {
    const std::size_t channel = std::min<std::size_t>(p / area, 2);
    pixels[p] = (pixels[p] - kMeans[channel]) / kDeviations[channel];
  }
}

// Uniform in [0, 1).
double uniform_of(std::uint64_t seed, std::uint64_t draw) {
  constexpr double kScale = 1.0 / 9007199254740992.0;  // 2^-53
  return static_cast<double>(hash_mix(seed, draw) >> 11) * kScale;
}

}  // namespace

Literal scaled_part(const Literal& image, const ImagePart& part, std::int64_t size) {
  const std::int64_t channels = image.type().dim(0), height = image.type().dim(1), width = image.type().dim(2);
  const auto rows = places_of(part.top, part.height, size, height, false);
  const auto columns = places_of(part.left, part.width, size, width, part.is_mirrored);
  Literal out(Type::array(DType::kF32, {channels, size, size}));
  const auto from = image.data<float>();
  auto to = out.mutable_data<float>();
  const auto pixel = [&](std::int64_t c, std::int64_t y, std::int64_t x) {
    return from[static_cast<std::size_t>((c * height + y) * width + x)];
  };
  std::size_t next = 0;
  for (std::int64_t c = 0; c < channels; ++c)
    for (const Between& y : rows)
      for (const Between& x : columns) {
        const float above = pixel(c, y.low, x.low) * (1 - x.weight) + pixel(c, y.low, x.high) * x.weight;
        const float below = pixel(c, y.high, x.low) * (1 - x.weight) + pixel(c, y.high, x.high) * x.weight;
        to[next++] = above * (1 - y.weight) + below * y.weight;
      }
  return out;
}

Literal centre_square(const Literal& image, std::int64_t size) {
  const auto height = static_cast<double>(image.type().dim(1)), width = static_cast<double>(image.type().dim(2));
  const double side = std::min(height, width);
  return scaled_part(image, {(height - side) / 2, (width - side) / 2, side, side}, size);
}

ImagePart random_part(std::int64_t height, std::int64_t width, std::uint64_t seed) {
  constexpr double kLeastArea = 0.08;
  constexpr double kLargestRatio = 4.0 / 3;
  constexpr std::uint64_t kTries = 10;
  const bool is_mirrored = uniform_of(seed, 0) < 0.5;
  const auto rows = static_cast<double>(height), columns = static_cast<double>(width);
  for (std::uint64_t i = 0; i < kTries; ++i) {
    const double area = rows * columns * (kLeastArea + (1 - kLeastArea) * uniform_of(seed, 4 * i + 1));
    const double ratio = std::exp(std::log(kLargestRatio) * (2 * uniform_of(seed, 4 * i + 2) - 1));
    const double part_width = std::round(std::sqrt(area * ratio)), part_height = std::round(std::sqrt(area / ratio));
    if (part_width < 1 || part_height < 1 || part_width > columns || part_height > rows) continue;
    const double top = std::floor((rows - part_height + 1) * uniform_of(seed, 4 * i + 3));
    const double left = std::floor((columns - part_width + 1) * uniform_of(seed, 4 * i + 4));
    return {top, left, part_height, part_width, is_mirrored};
  }
  // The image is too long or too high: the largest part in its centre that has an allowed ratio.
  const double part_width = std::min(columns, std::round(rows * kLargestRatio));
  const double part_height = std::min(rows, std::round(columns * kLargestRatio));
  return {std::floor((rows - part_height) / 2), std::floor((columns - part_width) / 2), part_height, part_width,
          is_mirrored};
}

data::Arrays RandomParts::collate(const std::vector<data::Arrays>& samples, const data::RowsToMake& request) const {
  std::vector<data::Arrays> squares;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Literal& image = samples[i].at("pixel_values");
    const std::int64_t number = i < request.samples.size() ? request.samples[i] : 0;
    const std::uint64_t seed =
        hash_mix(hash_mix(request.seed, static_cast<std::uint64_t>(request.epoch)), static_cast<std::uint64_t>(number));
    Literal square = scaled_part(image, random_part(image.type().dim(1), image.type().dim(2), seed), size_);
    normalize_channels(square, static_cast<std::size_t>(size_ * size_));
    squares.push_back({{"pixel_values", std::move(square)}, {"labels", samples[i].at("labels")}});
  }
  return data::StackCollator().collate(squares, request);
}

data::Arrays SquareImages::get(std::int64_t i) const {
  const data::Arrays sample = folder_->get(i);
  Literal image = centre_square(sample.at("pixel_values"), size_);
  normalize_channels(image, static_cast<std::size_t>(size_ * size_));
  return {{"pixel_values", std::move(image)}, {"labels", sample.at("labels")}};
}

data::Arrays FakeImages::get(std::int64_t i) const {
  constexpr std::int64_t kChannels = 3;
  const std::int64_t label = i % classes_;
  Literal image(Type::array(DType::kF32, {kChannels, size_, size_}));
  auto pixels = image.mutable_data<float>();
  std::uint64_t state = hash_mix(static_cast<std::uint64_t>(i), 7);
  constexpr float kScale = 1.0F / 65536;
  for (std::size_t p = 0; p < pixels.size(); ++p) {
    if (p % 4 == 0) state = hash_mix(state, p);
    const auto noise = static_cast<float>((state >> (16 * (p % 4))) & 0xFFFFU) * kScale - 0.5F;
    const auto column = static_cast<std::int64_t>(p) % size_;
    pixels[p] = noise + (column * classes_ / size_ == label ? 1.0F : 0.0F);
  }
  return {{"pixel_values", std::move(image)},
          {"labels", Literal::from<std::int32_t>({}, {static_cast<std::int32_t>(label)})}};
}

}  // namespace tessera::trainer
