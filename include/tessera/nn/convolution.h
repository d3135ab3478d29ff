// SPDX-License-Identifier: Apache-2.0
// Convolutions with PyTorch's arguments and names of parameters. A size is one number for both dims, or {h, w}.
#pragma once

#include <string_view>

#include "tessera/frontend/tensor/convolutions.h"
#include "tessera/frontend/tensor/windows.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

/// As `.padding`: the result has the size of x, as with padding="same" of PyTorch. Requires stride 1. If the padding is
/// odd, the end gets one element more.
inline constexpr std::int64_t kSamePadding = -1;

/// conv1d() over [n, c, l]: weight [out, in / groups, k] from uniform(-b, b) with b = 1/sqrt(in / groups * k); bias
/// likewise.
class Conv1d : public Callable<Conv1d> {
 public:
  struct Options {
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    std::int64_t dilation = 1;
    std::int64_t groups = 1;
    bool bias = true;
    DType dtype = DType::kF32;
    PadMode padding_mode = PadMode::kConstant;  // constant: zeros
  };
  Conv1d(std::int64_t in, std::int64_t out, std::int64_t kernel_size) : Conv1d(in, out, kernel_size, Options()) {}
  /// Error if the groups do not divide both numbers of channels.
  Conv1d(std::int64_t in, std::int64_t out, std::int64_t kernel_size, const Options& options);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] std::string_view class_name() const override { return "Conv1d"; }

 private:
  Options options_;
  Tensor weight_, bias_;
};

/// conv2d() over [n, c, h, w]: weight [out, in / groups, kh, kw], from uniform(-b, b) with b = 1/sqrt(in / groups * kh
/// * kw); bias likewise.
class Conv2d : public Callable<Conv2d> {
 public:
  struct Options {
    Size2d stride = 1;
    Size2d padding = 0;
    Size2d dilation = 1;
    std::int64_t groups = 1;
    bool bias = true;
    DType dtype = DType::kF32;
    /// The initializer of the weight; null: uniform(-b, b), as above.
    Initializer weight_initializer{};
    PadMode padding_mode = PadMode::kConstant;  // constant: zeros
  };
  Conv2d(std::int64_t in, std::int64_t out, const Size2d& kernel_size) : Conv2d(in, out, kernel_size, Options()) {}
  /// Errors: kernel_size does not have one or two entries; the groups do not divide both numbers of channels.
  Conv2d(std::int64_t in, std::int64_t out, const Size2d& kernel_size, const Options& options);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] std::string_view class_name() const override { return "Conv2d"; }

 private:
  Options options_;
  Tensor weight_, bias_;
};

/// conv_transpose1d() over [n, c, l]: weight [in, out / groups, k], from uniform(-b, b) with b = 1/sqrt(out / groups *
/// k); bias likewise.
class ConvTranspose1d : public Callable<ConvTranspose1d> {
 public:
  struct Options {
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    std::int64_t output_padding = 0;
    std::int64_t dilation = 1;
    std::int64_t groups = 1;
    bool bias = true;
    DType dtype = DType::kF32;
  };
  ConvTranspose1d(std::int64_t in, std::int64_t out, std::int64_t kernel_size)
      : ConvTranspose1d(in, out, kernel_size, Options()) {}
  /// Error if the groups do not divide both numbers of channels.
  ConvTranspose1d(std::int64_t in, std::int64_t out, std::int64_t kernel_size, const Options& options);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] std::string_view class_name() const override { return "ConvTranspose1d"; }

 private:
  Options options_;
  Tensor weight_, bias_;
};

/// conv_transpose2d() over [n, c, h, w]: weight [in, out / groups, kh, kw], from uniform(-b, b) with b = 1/sqrt(out /
/// groups * kh * kw); bias likewise.
class ConvTranspose2d : public Callable<ConvTranspose2d> {
 public:
  struct Options {
    Size2d stride = 1;
    Size2d padding = 0;
    Size2d output_padding = 0;
    Size2d dilation = 1;
    std::int64_t groups = 1;
    bool bias = true;
    DType dtype = DType::kF32;
  };
  ConvTranspose2d(std::int64_t in, std::int64_t out, const Size2d& kernel_size)
      : ConvTranspose2d(in, out, kernel_size, Options()) {}
  /// Errors: those of Conv2d.
  ConvTranspose2d(std::int64_t in, std::int64_t out, const Size2d& kernel_size, const Options& options);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] std::string_view class_name() const override { return "ConvTranspose2d"; }

 private:
  Options options_;
  Tensor weight_, bias_;
};

}  // namespace tessera::nn
