// SPDX-License-Identifier: Apache-2.0
// Modules that move elements and compute nothing.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

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

/// Repeats each pixel of [n, c, h, w] `scale_factor` times along h and w: PyTorch's mode "nearest" with an integer
/// factor.
class Upsample : public Callable<Upsample> {
 public:
  /// One factor for both dims, or {h, w}. Error unless they are positive.
  explicit Upsample(const Size2d& scale_factor);
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Upsample"; }

 private:
  std::int64_t h_factor_ = 1, w_factor_ = 1;
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
