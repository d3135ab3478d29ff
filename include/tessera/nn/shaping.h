// SPDX-License-Identifier: Apache-2.0
// Modules that move elements, and modules that resize images.
#pragma once

#include <cstdint>
#include <source_location>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

/// Merges the dims start_dim..end_dim into one.
class Flatten : public Callable<Flatten> {
 public:
  explicit Flatten(int start_dim = 1, int end_dim = -1) : start_dim_(start_dim), end_dim_(end_dim) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Flatten"; }

 private:
  int start_dim_, end_dim_;
};

/// Divides a dim into dims of these sizes, of which one may be -1.
class Unflatten : public Callable<Unflatten> {
 public:
  Unflatten(int dim, Dims sizes) : dim_(dim), sizes_(std::move(sizes)) {}
  /// Error unless the sizes are at least 0, or -1, and multiply to that of the dim.
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Unflatten"; }

 private:
  int dim_;
  Dims sizes_;
};

/// [n, c * r * r, h, w] -> [n, c, h * r, w * r]: channel (c, i, j) has the pixels (h * r + i, w * r + j).
class PixelShuffle : public Callable<PixelShuffle> {
 public:
  /// Error unless the factor is positive.
  explicit PixelShuffle(std::int64_t upscale_factor);
  /// Error if the number of channels is not divisible by the square of the factor.
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "PixelShuffle"; }

 private:
  std::int64_t factor_;
};

/// [n, c, h * r, w * r] -> [n, c * r * r, h, w]: the inverse of PixelShuffle.
class PixelUnshuffle : public Callable<PixelUnshuffle> {
 public:
  /// Error unless the factor is positive.
  explicit PixelUnshuffle(std::int64_t downscale_factor);
  /// Error if h or w is not divisible by the factor.
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "PixelUnshuffle"; }

 private:
  std::int64_t factor_;
};

/// How interpolate() computes an element. kNearest takes the element at floor(i step), and kNearestExact that at
/// floor((i + 1/2) step). The step is 1 / scale_factor if a factor is given, unless recompute_scale_factor; else it is
/// in / out. kLinear [n, c, l], kBilinear [n, c, h, w] and kTrilinear [n, c, d, h, w] interpolate between the nearest
/// elements, and copy a dim that keeps its size; kBicubic between the nearest four of each of h and w.
enum class InterpolateMode : std::uint8_t { kNearest, kNearestExact, kLinear, kBilinear, kBicubic, kTrilinear };

struct InterpolateOptions {
  /// The sizes of the dims after [n, c]; one number applies to all of them. Give either size or scale_factor.
  Dims size{};
  /// The factors of these dims; one number applies to all of them. A size is floor(in * factor).
  std::vector<double> scale_factor{};
  InterpolateMode mode = InterpolateMode::kNearest;
  /// Positions are those of the centers of the elements: the first and the last ones coincide. false: the borders of
  /// the images coincide. Not for the modes kNearest and kNearestExact.
  bool align_corners = false;
  /// Positions are computed from the sizes, not from scale_factor.
  bool recompute_scale_factor = false;
};
/// Resizes [n, c, …] as torch.nn.functional.interpolate without antialiasing. Every dim may be sharded.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options,
                   std::source_location where = std::source_location::current());

/// interpolate(). In the short form, each pixel is repeated `scale_factor` times.
class Upsample : public Callable<Upsample> {
 public:
  /// One factor for both dims, or {h, w}. Error unless they are positive.
  explicit Upsample(const Size2d& scale_factor);
  explicit Upsample(InterpolateOptions options) : options_(std::move(options)) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Upsample"; }

 private:
  InterpolateOptions options_;
};

/// Pads the last two dims with zeros. Negative numbers remove elements.
class ZeroPad2d : public Callable<ZeroPad2d> {
 public:
  /// One number for all sides, or {left, right, top, bottom}.
  explicit ZeroPad2d(std::int64_t padding) : ZeroPad2d(Dims(4, padding)) {}
  /// Error unless there are four numbers.
  explicit ZeroPad2d(Dims padding);
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "ZeroPad2d"; }

 private:
  Dims padding_;
};

}  // namespace tessera::nn
