// SPDX-License-Identifier: Apache-2.0
// Batch normalization with PyTorch's arguments and names of parameters and buffers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

/// Batch normalization of [n, c, ...] by channels. In training it uses the statistics of the complete batch, for every
/// sharding, and updates the running statistics: running = (1 - momentum) * running + momentum * batch (with the
/// unbiased variance). In evaluation it uses the running statistics. Without track_running_stats it always uses those
/// of the batch.
class BatchNorm : public Callable<BatchNorm> {
 public:
  struct Options {
    double epsilon = 1e-5;
    double momentum = 0.1;
    bool affine = true;
    bool track_running_stats = true;
    DType dtype = DType::kF32;
  };
  /// Error if the class does not accept the number of dims or channels of x, or if the statistics of the batch are
  /// needed and each channel has one value.
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] Tensor running_mean() const { return running_mean_; }
  [[nodiscard]] Tensor running_var() const { return running_var_; }
  [[nodiscard]] Tensor num_batches_tracked() const { return num_batches_tracked_; }

 protected:
  BatchNorm(std::int64_t features, const Options& options, std::vector<int> ndims);

 private:
  void track(const ChannelStatistics& batch, double count);

  std::int64_t features_;
  Options options_;
  std::vector<int> ndims_;  // that x may have
  Tensor weight_, bias_;
  Tensor running_mean_, running_var_, num_batches_tracked_;
};

/// Batch normalization of [n, c] or [n, c, l].
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(std::int64_t features) : BatchNorm1d(features, Options()) {}
  BatchNorm1d(std::int64_t features, const Options& options) : BatchNorm(features, options, {2, 3}) {}
  [[nodiscard]] std::string_view class_name() const override { return "BatchNorm1d"; }
};

/// Batch normalization of images [n, c, h, w].
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(std::int64_t features) : BatchNorm2d(features, Options()) {}
  BatchNorm2d(std::int64_t features, const Options& options) : BatchNorm(features, options, {4}) {}
  [[nodiscard]] std::string_view class_name() const override { return "BatchNorm2d"; }
};

}  // namespace tessera::nn
