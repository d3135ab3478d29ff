// SPDX-License-Identifier: Apache-2.0
// Layers over images [n, c, h, w], with PyTorch's arguments and names. A size is one number for both dims, or {h, w}.
#pragma once

#include <string_view>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

/// weight [out, in / groups, kh, kw], from uniform(-b, b) with b = 1/sqrt(in / groups * kh * kw); bias likewise.
class Conv2d : public Callable<Conv2d> {
 public:
  struct Options {
    Dims stride{1};
    Dims padding{0};
    Dims dilation{1};
    std::int64_t groups = 1;
    bool bias = true;
    DType dtype = DType::kF32;
  };
  Conv2d(std::int64_t in, std::int64_t out, const Dims& kernel_size) : Conv2d(in, out, kernel_size, Options()) {}
  Conv2d(std::int64_t in, std::int64_t out, const Dims& kernel_size, const Options& options);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] std::string_view class_name() const override { return "Conv2d"; }

 private:
  Options options_;
  Tensor weight_, bias_;
};

/// Batch normalization. In training it uses the statistics of the complete batch, whatever its sharding, and updates
/// the running statistics: running = (1 - momentum) * running + momentum * batch (with the unbiased variance). In
/// evaluation it uses the running statistics.
class BatchNorm2d : public Callable<BatchNorm2d> {
 public:
  struct Options {
    double epsilon = 1e-5;
    double momentum = 0.1;
    bool affine = true;
    bool track_running_stats = true;
    DType dtype = DType::kF32;
  };
  explicit BatchNorm2d(std::int64_t features) : BatchNorm2d(features, Options()) {}
  BatchNorm2d(std::int64_t features, const Options& options);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] Tensor running_mean() const { return running_mean_; }
  [[nodiscard]] Tensor running_var() const { return running_var_; }
  [[nodiscard]] std::string_view class_name() const override { return "BatchNorm2d"; }

 private:
  void track(const ChannelStatistics& batch, double count);

  Options options_;
  Tensor weight_, bias_;
  Tensor running_mean_, running_var_, num_batches_tracked_;
};

class MaxPool2d : public Callable<MaxPool2d> {
 public:
  explicit MaxPool2d(std::int64_t kernel_size) : MaxPool2d(Pool2dOptions{.kernel_size = {kernel_size}}) {}
  explicit MaxPool2d(Pool2dOptions options) : options_(std::move(options)) {}
  Tensor forward(const Tensor& x) { return max_pool2d(x, options_); }
  [[nodiscard]] std::string_view class_name() const override { return "MaxPool2d"; }

 private:
  Pool2dOptions options_;
};

class AvgPool2d : public Callable<AvgPool2d> {
 public:
  explicit AvgPool2d(std::int64_t kernel_size) : AvgPool2d(Pool2dOptions{.kernel_size = {kernel_size}}) {}
  explicit AvgPool2d(Pool2dOptions options) : options_(std::move(options)) {}
  Tensor forward(const Tensor& x) { return avg_pool2d(x, options_); }
  [[nodiscard]] std::string_view class_name() const override { return "AvgPool2d"; }

 private:
  Pool2dOptions options_;
};

/// Pools to one element for each channel. Other output sizes are not supported.
class AdaptiveAvgPool2d : public Callable<AdaptiveAvgPool2d> {
 public:
  explicit AdaptiveAvgPool2d(const Dims& output_size = {1});
  Tensor forward(const Tensor& x) { return adaptive_avg_pool2d(x); }
  [[nodiscard]] std::string_view class_name() const override { return "AdaptiveAvgPool2d"; }
};

}  // namespace tessera::nn
