// SPDX-License-Identifier: Apache-2.0
// Feed-forward layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/nn/activation_sharding.h"
#include "tessera/nn/linear.h"

namespace tessera::nn {

/// Two linear layers with an activation between them: fc2(activation(fc1(x))).
class MLP : public Callable<MLP> {
 public:
  struct Options {
    std::string activation = "gelu";
    bool bias = true;
    DType dtype = DType::kF32;
  };
  MLP(std::int64_t width, std::int64_t inner) : MLP(width, inner, Options()) {}
  MLP(std::int64_t width, std::int64_t inner, const Options& options);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Linear& fc1() { return fc1_; }
  [[nodiscard]] Linear& fc2() { return fc2_; }
  [[nodiscard]] std::string_view class_name() const override { return "MLP"; }

 private:
  std::string activation_;
  Linear fc1_, fc2_;
};

/// The gated feed-forward layer of Llama (Shazeer, 2020): down_proj(activation(gate_proj(x)) * up_proj(x)).
class SwiGLU : public Callable<SwiGLU> {
 public:
  struct Options {
    std::string activation = "silu";
    bool bias = false;
    DType dtype = DType::kF32;
    double standard_deviation = 0;  // of the weights, as in Linear
  };
  SwiGLU(std::int64_t width, std::int64_t inner) : SwiGLU(width, inner, Options()) {}
  SwiGLU(std::int64_t width, std::int64_t inner, const Options& options);
  Tensor forward(const Tensor& x);
  [[nodiscard]] Linear& gate_proj() { return gate_proj_; }
  [[nodiscard]] Linear& up_proj() { return up_proj_; }
  [[nodiscard]] Linear& down_proj() { return down_proj_; }
  /// Shards the inner dim over an axis, and the dim t of the result [b, t, c].
  void shard_tensor_parallel(const ActivationSharding& split);
  [[nodiscard]] std::string_view class_name() const override { return "SwiGLU"; }

 private:
  std::string activation_;
  Linear gate_proj_, up_proj_, down_proj_;
  std::optional<ActivationSharding> split_;
};

}  // namespace tessera::nn
