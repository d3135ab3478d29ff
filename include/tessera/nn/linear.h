// SPDX-License-Identifier: Apache-2.0
// Linear layers.
#pragma once

#include "tessera/nn/module.h"

namespace tessera::nn {

/// x W^T + b with W [out, in], from uniform(-1/sqrt(in), 1/sqrt(in)).
class Linear : public Callable<Linear> {
 public:
  struct Options {
    bool bias = true;
    DType dtype = DType::kF32;
    /// Not 0: the weight starts from normal(0, standard_deviation) and the bias from zero.
    double standard_deviation = 0;
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

/// y_o = x1^T W_o x2 + b_o with W [out, in1, in2], from uniform(-1/sqrt(in1), 1/sqrt(in1)); b likewise.
class Bilinear : public Callable<Bilinear> {
 public:
  struct Options {
    bool bias = true;
    DType dtype = DType::kF32;
  };
  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out) : Bilinear(in1, in2, out, Options()) {}
  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, const Options& options);
  /// x1 [..., in1] and x2 [..., in2] with equal further dims -> [..., out].
  Tensor forward(const Tensor& x1, const Tensor& x2);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] Tensor bias() const { return bias_; }
  [[nodiscard]] std::string_view class_name() const override { return "Bilinear"; }

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

}  // namespace tessera::nn
