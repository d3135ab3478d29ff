// SPDX-License-Identifier: Apache-2.0
// Encoders of transformers (Vaswani et al., 2017), with PyTorch's arguments and names of parameters.
//
//   nn::TransformerEncoder encoder(512, 8, 6, {.dropout = 0, .batch_first = true});
//   y = encoder(x, nn::EncoderMasks{.src_key_padding_mask = padding});
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/nn/attention.h"
#include "tessera/nn/containers.h"
#include "tessera/nn/normalization.h"

namespace tessera::nn {

/// The options of the layers of encoders and decoders.
struct TransformerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;             // of the attention weights, the inner activations and the result of each part
  std::string activation = "relu";  // a name that activation() knows; "gelu" is the form with erf
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  // x + part(norm(x)) instead of norm(x + part(x))
  bool bias = true;
  DType dtype = DType::kF32;
};

/// The masks of MultiheadAttention, for the source.
struct EncoderMasks {
  Tensor src_mask{};              // booleans, true where attention is not allowed, or floats that are added
  Tensor src_key_padding_mask{};  // booleans [b, s]: true for positions that are ignored
  bool is_causal = false;         // a position attends to no later ones; requires no src_mask
};

/// Attention of the source to itself, then two linear layers; each with a residual connection and a layer norm.
/// Parameters: self_attn, linear1, linear2, norm1, norm2.
class TransformerEncoderLayer : public Callable<TransformerEncoderLayer> {
 public:
  /// Errors: nhead does not divide d_model; the activation is unknown, with the nearest name.
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& options = {});
  /// src [s, b, d_model], or [b, s, d_model] with batch_first -> the same shape.
  Tensor forward(const Tensor& src) { return forward(src, {}); }
  Tensor forward(const Tensor& src, const EncoderMasks& masks);
  [[nodiscard]] MultiheadAttention& self_attn() { return self_attn_; }
  [[nodiscard]] Linear& linear1() { return linear1_; }
  [[nodiscard]] Linear& linear2() { return linear2_; }
  [[nodiscard]] std::string_view class_name() const override { return "TransformerEncoderLayer"; }

 private:
  std::int64_t d_model_;
  TransformerOptions options_;
  MultiheadAttention self_attn_;
  Linear linear1_;
  Dropout dropout_;
  Linear linear2_;
  LayerNorm norm1_, norm2_;
};

/// num_layers layers `layers.N`, and then `norm`, unless it is null. Each layer has its own initial values. (PyTorch
/// copies the values of one layer.)
class TransformerEncoder : public Callable<TransformerEncoder> {
 public:
  /// Errors: those of the layers.
  TransformerEncoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                     const TransformerOptions& options = {}, std::shared_ptr<LayerNorm> norm = nullptr);
  Tensor forward(const Tensor& src) { return forward(src, {}); }
  /// The masks apply to every layer.
  Tensor forward(const Tensor& src, const EncoderMasks& masks);
  [[nodiscard]] ModuleList<TransformerEncoderLayer>& layers() { return layers_; }
  [[nodiscard]] std::string_view class_name() const override { return "TransformerEncoder"; }

 private:
  ModuleList<TransformerEncoderLayer> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace tessera::nn
