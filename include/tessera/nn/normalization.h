// SPDX-License-Identifier: Apache-2.0
// Normalizations of rows and groups. Statistics are computed in f32 at least.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "tessera/nn/module.h"

namespace tessera::nn {

/// Layer normalization over the last dim, which has `width` elements. Normalizes to mean 0 and variance 1, multiplies
/// by the weight and adds the bias.
class LayerNorm : public Callable<LayerNorm> {
 public:
  struct Options {
    double epsilon = 1e-5;
    bool elementwise_affine = true;
    bool bias = true;  // only with elementwise_affine
    DType dtype = DType::kF32;
  };
  LayerNorm(std::int64_t width, const Options& options);
  explicit LayerNorm(std::int64_t width, double epsilon = 1e-5, DType dtype = DType::kF32)
      : LayerNorm(width, Options{.epsilon = epsilon, .dtype = dtype}) {}
  Tensor forward(const Tensor& x);
  /// Null without elementwise_affine.
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] std::string_view class_name() const override { return "LayerNorm"; }

 private:
  std::int64_t width_;
  double epsilon_;
  Tensor weight_, bias_;
};

/// weight * x / sqrt(mean(x^2) + epsilon) over the last dim, as in Llama (Zhang and Sennrich, 2019). The weight is
/// applied in the element type of x.
class RMSNorm : public Callable<RMSNorm> {
 public:
  struct Options {
    double epsilon = 1e-6;
    bool elementwise_affine = true;
    DType dtype = DType::kF32;
  };
  explicit RMSNorm(std::int64_t width) : RMSNorm(width, Options()) {}
  template <std::floating_point T>
  RMSNorm(std::int64_t width, T epsilon) : RMSNorm(width, Options{.epsilon = epsilon}) {}
  RMSNorm(std::int64_t width, const Options& options);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] std::string_view class_name() const override { return "RMSNorm"; }

 private:
  std::int64_t width_;
  double epsilon_;
  Tensor weight_;
};

/// Normalizes groups of channels of x [n, channels, ...] over the channels of the group and all further dims (Wu and
/// He, 2018). Then multiplies by the weight and adds the bias of each channel.
class GroupNorm : public Callable<GroupNorm> {
 public:
  struct Options {
    double epsilon = 1e-5;
    bool affine = true;
    DType dtype = DType::kF32;
  };
  /// Error if the groups do not divide the channels.
  GroupNorm(std::int64_t groups, std::int64_t channels) : GroupNorm(groups, channels, Options()) {}
  GroupNorm(std::int64_t groups, std::int64_t channels, const Options& options);
  /// Error, as in PyTorch, if x has only one value for each group.
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] std::string_view class_name() const override { return "GroupNorm"; }

 private:
  std::int64_t groups_, channels_;
  double epsilon_;
  Tensor weight_, bias_;
};

/// Normalizes each channel of each sample of x [n, channels, ...] over all further dims (Ulyanov et al., 2016). With
/// affine, multiplies by the weight and adds the bias of each channel. Has no running statistics.
class InstanceNorm : public Callable<InstanceNorm> {
 public:
  struct Options {
    double epsilon = 1e-5;
    bool affine = false;
    DType dtype = DType::kF32;
  };
  /// Error if the class does not accept the number of dims or channels of x, or if a channel of a sample has only one
  /// value.
  Tensor forward(const Tensor& x);
  /// Null without affine.
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }

 protected:
  InstanceNorm(std::int64_t features, const Options& options, int ndim);

 private:
  std::int64_t features_;
  double epsilon_;
  int ndim_;  // of x
  Tensor weight_, bias_;
};

/// Instance normalization of [n, c, l].
class InstanceNorm1d : public InstanceNorm {
 public:
  explicit InstanceNorm1d(std::int64_t features) : InstanceNorm1d(features, Options()) {}
  InstanceNorm1d(std::int64_t features, const Options& options) : InstanceNorm(features, options, 3) {}
  [[nodiscard]] std::string_view class_name() const override { return "InstanceNorm1d"; }
};

/// Instance normalization of images [n, c, h, w].
class InstanceNorm2d : public InstanceNorm {
 public:
  explicit InstanceNorm2d(std::int64_t features) : InstanceNorm2d(features, Options()) {}
  InstanceNorm2d(std::int64_t features, const Options& options) : InstanceNorm(features, options, 4) {}
  [[nodiscard]] std::string_view class_name() const override { return "InstanceNorm2d"; }
};

}  // namespace tessera::nn
