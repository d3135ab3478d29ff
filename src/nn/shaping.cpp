// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/shaping.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/frontend/tracing/inner.h"

namespace tessera::nn {
namespace {

void check_pixels(std::string_view layer, const Tensor& x) {
  require(x.ndim() == 4, "{} needs an image [n, c, h, w], got {}", layer, x.type());
}

}  // namespace

Tensor Flatten::forward(const Tensor& x) { return flatten(at_call(x), start_dim_, end_dim_); }

Tensor Unflatten::forward(const Tensor& x) {
  const int dim = dim_ < 0 ? dim_ + x.ndim() : dim_;
  require(dim >= 0 && dim < x.ndim(), "Unflatten: {} has no dim {}", x.type(), dim_);
  require(std::all_of(sizes_.begin(), sizes_.end(), [](std::int64_t part) { return part >= -1; }),
          "Unflatten: a size must be at least 0, or -1 for the rest, got {{{}}}", fmt::join(sizes_, ", "));
  const std::int64_t size = x.dim(dim);
  std::int64_t known = 1;
  for (const std::int64_t part : sizes_) known *= part == -1 ? 1 : part;
  const auto open = std::count(sizes_.begin(), sizes_.end(), -1);
  const bool fits = open == 0 ? known == size : open == 1 && known > 0 && size % known == 0;
  require(fits && !sizes_.empty(), "Unflatten: the sizes {{{}}} do not multiply to {}, the size of dim {} of {}",
          fmt::join(sizes_, ", "), size, dim, x.type());
  Dims dims = x.dims();
  dims.erase(dims.begin() + dim);
  for (auto part = sizes_.rbegin(); part != sizes_.rend(); ++part)
    dims.insert(dims.begin() + dim, *part == -1 ? size / known : *part);
  return x.reshape(dims, detail::current_call());
}

PixelShuffle::PixelShuffle(std::int64_t upscale_factor) : factor_(upscale_factor) {
  require(upscale_factor >= 1, "PixelShuffle: upscale_factor must be positive, got {}", upscale_factor);
}

Tensor PixelShuffle::forward(const Tensor& x) {
  check_pixels("PixelShuffle", x);
  const std::int64_t r = factor_, n = x.dim(0), h = x.dim(2), w = x.dim(3);
  require(x.dim(1) % (r * r) == 0, "PixelShuffle: the channels must be a multiple of {}, got {}", r * r, x.type());
  const std::int64_t channels = x.dim(1) / (r * r);
  const auto where = detail::current_call();
  const Tensor apart = x.reshape({n, channels, r, r, h, w}, where);
  return apart.transpose({0, 1, 4, 2, 5, 3}, where).reshape({n, channels, h * r, w * r}, where);
}

PixelUnshuffle::PixelUnshuffle(std::int64_t downscale_factor) : factor_(downscale_factor) {
  require(downscale_factor >= 1, "PixelUnshuffle: downscale_factor must be positive, got {}", downscale_factor);
}

Tensor PixelUnshuffle::forward(const Tensor& x) {
  check_pixels("PixelUnshuffle", x);
  const std::int64_t r = factor_, n = x.dim(0), c = x.dim(1), h = x.dim(2) / r, w = x.dim(3) / r;
  require(h * r == x.dim(2) && w * r == x.dim(3),
          "PixelUnshuffle: the height and width must be multiples of {}, got {}", r, x.type());
  const auto where = detail::current_call();
  const Tensor apart = x.reshape({n, c, h, r, w, r}, where);
  return apart.transpose({0, 1, 3, 5, 2, 4}, where).reshape({n, c * r * r, h, w}, where);
}

ZeroPad2d::ZeroPad2d(Dims padding) : padding_(std::move(padding)) {
  require(padding_.size() == 4, "ZeroPad2d needs one number or {{left, right, top, bottom}}, got {} numbers",
          padding_.size());
}

Tensor ZeroPad2d::forward(const Tensor& x) {
  require(x.ndim() >= 2, "ZeroPad2d needs [..., h, w], got {}", x.type());
  const Tensor wide = pad(at_call(x), -1, padding_[0], padding_[1]);
  return pad(at_call(wide), -2, padding_[2], padding_[3]);
}

}  // namespace tessera::nn
