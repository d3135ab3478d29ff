// SPDX-License-Identifier: Apache-2.0
#include "image_sources.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/base/text.h"

namespace tessera::trainer {
namespace {

// A place between two neighbours.
struct Between {
  std::int64_t low = 0;
  std::int64_t high = 0;
  float weight = 0;  // of the higher one
};

Between place_of(std::int64_t pixel, std::int64_t result_size, std::int64_t size, double scale) {
  const double middle =
      static_cast<double>(size) / 2 + (static_cast<double>(pixel) + 0.5 - static_cast<double>(result_size) / 2) * scale;
  const double at = std::clamp(middle - 0.5, 0.0, static_cast<double>(size - 1));
  const auto low = static_cast<std::int64_t>(at);
  return {low, std::min(low + 1, size - 1), static_cast<float>(at - static_cast<double>(low))};
}

}  // namespace

Literal centre_square(const Literal& image, std::int64_t size) {
  const std::int64_t channels = image.type().dim(0), height = image.type().dim(1), width = image.type().dim(2);
  const double scale = static_cast<double>(std::min(height, width)) / static_cast<double>(size);
  Literal out(Type::array(DType::kF32, {channels, size, size}));
  const auto from = image.data<float>();
  auto to = out.mutable_data<float>();
  const auto pixel = [&](std::int64_t c, std::int64_t y, std::int64_t x) {
    return from[static_cast<std::size_t>((c * height + y) * width + x)];
  };
  std::size_t next = 0;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t row = 0; row < size; ++row) {
      const Between y = place_of(row, size, height, scale);
      for (std::int64_t column = 0; column < size; ++column) {
        const Between x = place_of(column, size, width, scale);
        const float above = pixel(c, y.low, x.low) * (1 - x.weight) + pixel(c, y.low, x.high) * x.weight;
        const float below = pixel(c, y.high, x.low) * (1 - x.weight) + pixel(c, y.high, x.high) * x.weight;
        to[next++] = above * (1 - y.weight) + below * y.weight;
      }
    }
  return out;
}

data::Arrays SquareImages::get(std::int64_t i) const {
  const data::Arrays sample = folder_->get(i);
  Literal image = centre_square(sample.at("pixel_values"), size_);
  constexpr std::array<float, 3> kMeans = {0.485F, 0.456F, 0.406F};
  constexpr std::array<float, 3> kDeviations = {0.229F, 0.224F, 0.225F};
  auto pixels = image.mutable_data<float>();
  const auto area = static_cast<std::size_t>(size_ * size_);
  for (std::size_t p = 0; p < pixels.size(); ++p) {
    const std::size_t channel = std::min<std::size_t>(p / area, 2);
    pixels[p] = (pixels[p] - kMeans[channel]) / kDeviations[channel];
  }
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
