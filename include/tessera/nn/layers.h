// SPDX-License-Identifier: Apache-2.0
// Layers. Their parameters are named as PyTorch and Hugging Face name them.
#pragma once

#include <string_view>

#include "tessera/nn/module.h"

namespace tessera::nn {

/// x W^T + b with W [out, in], from uniform(-1/sqrt(in), 1/sqrt(in)).
class Linear : public Callable<Linear> {
 public:
  struct Options {
    bool bias = true;
    DType dtype = DType::kF32;
  };
  Linear(std::int64_t in, std::int64_t out) : Linear(in, out, Options()) {}
  Linear(std::int64_t in, std::int64_t out, const Options& options);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] std::string_view class_name() const override { return "Linear"; }

 private:
  Tensor weight_, bias_;
};

/// GPT-2's linear layer: x W + b with W [in, out], from normal(0, standard_deviation), b zero.
class Conv1D : public Callable<Conv1D> {
 public:
  Conv1D(std::int64_t in, std::int64_t out, double standard_deviation, DType dtype = DType::kF32);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] std::string_view class_name() const override { return "Conv1D"; }

 private:
  Tensor weight_, bias_;
};

/// Rows of a table [count, width], from normal(0, standard_deviation).
class Embedding : public Callable<Embedding> {
 public:
  Embedding(std::int64_t count, std::int64_t width, double standard_deviation = 1.0, DType dtype = DType::kF32);
  Tensor forward(const Tensor& ids);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] std::string_view class_name() const override { return "Embedding"; }

 private:
  Tensor weight_;
};

/// Layer normalization over the last dim, which has `width` elements.
class LayerNorm : public Callable<LayerNorm> {
 public:
  explicit LayerNorm(std::int64_t width, double epsilon = 1e-5, DType dtype = DType::kF32);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] std::string_view class_name() const override { return "LayerNorm"; }

 private:
  Tensor weight_, bias_;
  double epsilon_;
};

/// Dropout in training; the identity in evaluation.
class Dropout : public Callable<Dropout> {
 public:
  explicit Dropout(double p) : p_(p) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "Dropout"; }

 private:
  double p_;
};

/// `approximate`: GPT-2's tanh form (gelu_new).
class GELU : public Callable<GELU> {
 public:
  explicit GELU(bool approximate = true) : approximate_(approximate) {}
  Tensor forward(const Tensor& x);
  [[nodiscard]] std::string_view class_name() const override { return "GELU"; }

 private:
  bool approximate_;
};

}  // namespace tessera::nn
