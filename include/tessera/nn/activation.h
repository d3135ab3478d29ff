// SPDX-License-Identifier: Apache-2.0
// Elementwise functions as modules, activations by their Hugging Face names, and dropout.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/nn/module.h"

namespace tessera::nn {

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

class Tanh : public Callable<Tanh> {
 public:
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Tanh"; }
};

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

/// The names that activation() knows: gelu, gelu_new, gelu_pytorch_tanh, relu, sigmoid, silu, swish, tanh.
const std::vector<std::string>& activation_names();
/// Applies the activation that Hugging Face's configurations call `name`. If the name is unknown, the error contains
/// the nearest one.
Tensor activation(const Tensor& x, std::string_view name);

}  // namespace tessera::nn
