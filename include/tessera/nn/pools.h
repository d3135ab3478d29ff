// SPDX-License-Identifier: Apache-2.0
// Pools of sequences [n, c, l] and of images [n, c, h, w] with PyTorch's arguments. A size of an image is one number
// for both dims, or {h, w}.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "tessera/frontend/tensor/convolutions.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

/// max_pool1d().
class MaxPool1d : public Callable<MaxPool1d> {
 public:
  /// The default stride is kernel_size.
  explicit MaxPool1d(std::int64_t kernel_size, std::int64_t stride = 0, std::int64_t padding = 0)
      : MaxPool1d(Pool1dOptions{.kernel_size = kernel_size, .stride = stride, .padding = padding}) {}
  explicit MaxPool1d(const Pool1dOptions& options) : options_(options) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "MaxPool1d"; }

 private:
  Pool1dOptions options_;
};

/// avg_pool1d().
class AvgPool1d : public Callable<AvgPool1d> {
 public:
  /// The default stride is kernel_size.
  explicit AvgPool1d(std::int64_t kernel_size, std::int64_t stride = 0, std::int64_t padding = 0)
      : AvgPool1d(Pool1dOptions{.kernel_size = kernel_size, .stride = stride, .padding = padding}) {}
  explicit AvgPool1d(const Pool1dOptions& options) : options_(options) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "AvgPool1d"; }

 private:
  Pool1dOptions options_;
};

/// adaptive_avg_pool1d(): the mean over each of output_size windows, for any length.
class AdaptiveAvgPool1d : public Callable<AdaptiveAvgPool1d> {
 public:
  /// Error unless output_size is positive.
  explicit AdaptiveAvgPool1d(std::int64_t output_size);
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "AdaptiveAvgPool1d"; }

 private:
  std::int64_t output_size_;
};

/// max_pool2d().
class MaxPool2d : public Callable<MaxPool2d> {
 public:
  /// The default stride is kernel_size.
  explicit MaxPool2d(Size2d kernel_size, Size2d stride = {}, Size2d padding = 0)
      : MaxPool2d(Pool2dOptions{
            .kernel_size = std::move(kernel_size), .stride = std::move(stride), .padding = std::move(padding)}) {}
  explicit MaxPool2d(Pool2dOptions options) : options_(std::move(options)) {}
  Tensor forward(const Tensor& x) { return max_pool2d(x, options_); }
  [[nodiscard]] std::string_view class_name() const override { return "MaxPool2d"; }

 private:
  Pool2dOptions options_;
};

/// avg_pool2d().
class AvgPool2d : public Callable<AvgPool2d> {
 public:
  /// The default stride is kernel_size.
  explicit AvgPool2d(Size2d kernel_size, Size2d stride = {}, Size2d padding = 0)
      : AvgPool2d(Pool2dOptions{
            .kernel_size = std::move(kernel_size), .stride = std::move(stride), .padding = std::move(padding)}) {}
  explicit AvgPool2d(Pool2dOptions options) : options_(std::move(options)) {}
  Tensor forward(const Tensor& x) { return avg_pool2d(x, options_); }
  [[nodiscard]] std::string_view class_name() const override { return "AvgPool2d"; }

 private:
  Pool2dOptions options_;
};

/// adaptive_avg_pool2d(): the mean over each of output_size windows, for any image size.
class AdaptiveAvgPool2d : public Callable<AdaptiveAvgPool2d> {
 public:
  /// Error unless output_size has one or two positive numbers.
  explicit AdaptiveAvgPool2d(Size2d output_size = 1);
  Tensor forward(const Tensor& x) { return adaptive_avg_pool2d(x, output_size_); }
  [[nodiscard]] std::string_view class_name() const override { return "AdaptiveAvgPool2d"; }

 private:
  Size2d output_size_;
};

/// The largest element of each of output_size windows, for any length. The windows are those of AdaptiveAvgPool1d.
class AdaptiveMaxPool1d : public Callable<AdaptiveMaxPool1d> {
 public:
  /// Error unless output_size is positive.
  explicit AdaptiveMaxPool1d(std::int64_t output_size);
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "AdaptiveMaxPool1d"; }

 private:
  std::int64_t output_size_;
};

/// The largest element of each of output_size windows, for any image size. The windows are those of AdaptiveAvgPool2d.
class AdaptiveMaxPool2d : public Callable<AdaptiveMaxPool2d> {
 public:
  /// Error unless output_size has one or two positive numbers.
  explicit AdaptiveMaxPool2d(Size2d output_size);
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "AdaptiveMaxPool2d"; }

 private:
  Size2d output_size_;
};

}  // namespace tessera::nn
