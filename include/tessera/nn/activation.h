// SPDX-License-Identifier: Apache-2.0
// Elementwise functions as modules, activations by their Hugging Face names, and dropout.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/nn/module.h"

namespace tessera::nn {

/// relu().
class ReLU : public Callable<ReLU> {
 public:
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "ReLU"; }
};

/// If `approximate`, the tanh form of GPT-2 (gelu_new), as PyTorch's GELU(approximate="tanh"). Otherwise the form with
/// erf.
class GELU : public Callable<GELU> {
 public:
  explicit GELU(bool approximate = true) : approximate_(approximate) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "GELU"; }

 private:
  bool approximate_;
};

/// x sigmoid(x).
class SiLU : public Callable<SiLU> {
 public:
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "SiLU"; }
};

/// tanh().
class Tanh : public Callable<Tanh> {
 public:
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Tanh"; }
};

/// sigmoid().
class Sigmoid : public Callable<Sigmoid> {
 public:
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Sigmoid"; }
};

/// leaky_relu().
class LeakyReLU : public Callable<LeakyReLU> {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "LeakyReLU"; }

 private:
  double negative_slope_;
};

/// elu().
class ELU : public Callable<ELU> {
 public:
  explicit ELU(double alpha = 1) : alpha_(alpha) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "ELU"; }

 private:
  double alpha_;
};

/// selu().
class SELU : public Callable<SELU> {
 public:
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "SELU"; }
};

/// softplus(), which needs no threshold.
class Softplus : public Callable<Softplus> {
 public:
  /// Error unless beta > 0.
  explicit Softplus(double beta = 1);
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Softplus"; }

 private:
  double beta_;
};

/// hardsigmoid().
class Hardsigmoid : public Callable<Hardsigmoid> {
 public:
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Hardsigmoid"; }
};

/// hardswish().
class Hardswish : public Callable<Hardswish> {
 public:
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Hardswish"; }
};

/// mish().
class Mish : public Callable<Mish> {
 public:
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Mish"; }
};

/// relu6().
class ReLU6 : public Callable<ReLU6> {
 public:
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "ReLU6"; }
};

/// hardtanh().
class Hardtanh : public Callable<Hardtanh> {
 public:
  /// Error unless min_val < max_val.
  explicit Hardtanh(double min_val = -1, double max_val = 1);
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Hardtanh"; }

 private:
  double min_val_, max_val_;
};

/// threshold().
class Threshold : public Callable<Threshold> {
 public:
  Threshold(double threshold, double value) : threshold_(threshold), value_(value) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Threshold"; }

 private:
  double threshold_, value_;
};

/// celu().
class CELU : public Callable<CELU> {
 public:
  /// Error if alpha is 0.
  explicit CELU(double alpha = 1);
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "CELU"; }

 private:
  double alpha_;
};

/// log_sigmoid().
class LogSigmoid : public Callable<LogSigmoid> {
 public:
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "LogSigmoid"; }
};

/// glu() along a dim, whose size becomes half.
class GLU : public Callable<GLU> {
 public:
  explicit GLU(int dim = -1) : dim_(dim) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "GLU"; }

 private:
  int dim_;
};

/// prelu() with the parameter `weight`.
class PReLU : public Callable<PReLU> {
 public:
  /// One slope, or one for each element of dim 1.
  explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25, DType dtype = DType::kF32);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] std::string_view class_name() const override { return "PReLU"; }

 private:
  Tensor weight_;
};

/// softmax() along a dim.
class Softmax : public Callable<Softmax> {
 public:
  explicit Softmax(int dim) : dim_(dim) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Softmax"; }

 private:
  int dim_;
};

/// log_softmax() along a dim.
class LogSoftmax : public Callable<LogSoftmax> {
 public:
  explicit LogSoftmax(int dim) : dim_(dim) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "LogSoftmax"; }

 private:
  int dim_;
};

/// softmin() along a dim.
class Softmin : public Callable<Softmin> {
 public:
  explicit Softmin(int dim) : dim_(dim) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Softmin"; }

 private:
  int dim_;
};

/// Returns its argument.
class Identity : public Callable<Identity> {
 public:
  Tensor forward(const Tensor& x) { return x; }
  [[nodiscard]] std::string_view class_name() const override { return "Identity"; }
};

/// Dropout in training; the identity in evaluation.
class Dropout : public Callable<Dropout> {
 public:
  /// Error unless 0 <= p < 1.
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Dropout"; }

 private:
  double p_;
};

namespace detail {

/// Error unless 0 <= p < 1.
void check_dropout(std::string_view layer, double p);
/// Sets complete channels of x [n, c, …] of `dims` dims to 0, and divides the others by 1 - p.
Tensor drop_channels(std::string_view layer, const Tensor& x, double p, int dims);

}  // namespace detail

/// In training, sets complete channels of a sample to 0, each with the probability p, and divides the others by 1 - p.
template <class Self>
class ChannelDropout : public Callable<Self> {
 public:
  /// Error unless 0 <= p < 1.
  explicit ChannelDropout(double p) : p_(p) { detail::check_dropout(Self::kName, p); }
  Tensor forward(const Tensor& x) {
    return this->is_training() && p_ > 0 ? detail::drop_channels(Self::kName, x, p_, Self::kDims) : x;
  }
  [[nodiscard]] std::string_view class_name() const override { return Self::kName; }

 private:
  double p_;
};
/// ChannelDropout of [n, c, l].
class Dropout1d : public ChannelDropout<Dropout1d> {
 public:
  explicit Dropout1d(double p = 0.5) : ChannelDropout(p) {}
  static constexpr std::string_view kName = "Dropout1d";
  static constexpr int kDims = 3;  // [n, c, l]
};
/// ChannelDropout of images [n, c, h, w].
class Dropout2d : public ChannelDropout<Dropout2d> {
 public:
  explicit Dropout2d(double p = 0.5) : ChannelDropout(p) {}
  static constexpr std::string_view kName = "Dropout2d";
  static constexpr int kDims = 4;  // [n, c, h, w]
};
/// ChannelDropout of volumes [n, c, d, h, w].
class Dropout3d : public ChannelDropout<Dropout3d> {
 public:
  explicit Dropout3d(double p = 0.5) : ChannelDropout(p) {}
  static constexpr std::string_view kName = "Dropout3d";
  static constexpr int kDims = 5;  // [n, c, d, h, w]
};

/// Dropout after SELU, which keeps mean 0 and variance 1 (Klambauer et al., 2017): in training, an element becomes the
/// least value of SELU with the probability p, and then all are scaled and shifted.
class AlphaDropout : public Callable<AlphaDropout> {
 public:
  /// Error unless 0 <= p < 1.
  explicit AlphaDropout(double p = 0.5);
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "AlphaDropout"; }

 private:
  double p_;
};

/// The names that activation() knows: those of Hugging Face's ACT2FN, except prelu and xielu, which have parameters.
const std::vector<std::string>& activation_names();
/// Applies the activation that Hugging Face's configurations call `name`. If the name is unknown, the error contains
/// the nearest one.
Tensor activation(const Tensor& x, std::string_view name);

}  // namespace tessera::nn
