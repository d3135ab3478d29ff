// SPDX-License-Identifier: Apache-2.0
// Decoders of transformers, with PyTorch's arguments and names of parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "tessera/nn/transformer/encoder.h"

namespace tessera::nn {

/// The masks of MultiheadAttention, for the target and for the memory (the result of an encoder).
struct DecoderMasks {
  Tensor tgt_mask{};                 // booleans, true where attention is not allowed, or floats that are added
  Tensor memory_mask{};              // [t, s]
  Tensor tgt_key_padding_mask{};     // booleans [b, t]: true for positions that are ignored
  Tensor memory_key_padding_mask{};  // [b, s]
  bool tgt_is_causal = false;        // a position of the target attends to no later ones; requires no tgt_mask
  bool memory_is_causal = false;
};

/// Attention of the target to itself, attention to the memory, then two linear layers; each with a residual connection
/// and a layer norm. Parameters: self_attn, multihead_attn, linear1, linear2, norm1, norm2, norm3.
class TransformerDecoderLayer : public Callable<TransformerDecoderLayer> {
 public:
  /// Errors: nhead does not divide d_model; the activation is unknown, with the nearest name.
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& options = {});
  /// tgt [t, b, d_model] and memory [s, b, d_model]; with batch_first, b is the first dim. The result has the shape of
  /// tgt.
  Tensor forward(const Tensor& tgt, const Tensor& memory) { return forward(tgt, memory, {}); }
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks);
  [[nodiscard]] MultiheadAttention& self_attn() { return self_attn_; }
  [[nodiscard]] MultiheadAttention& multihead_attn() { return multihead_attn_; }
  [[nodiscard]] Linear& linear1() { return linear1_; }
  [[nodiscard]] Linear& linear2() { return linear2_; }
  [[nodiscard]] std::string_view class_name() const override { return "TransformerDecoderLayer"; }

 private:
  std::int64_t d_model_;
  TransformerOptions options_;
  MultiheadAttention self_attn_, multihead_attn_;
  Linear linear1_;
  Dropout dropout_;
  Linear linear2_;
  LayerNorm norm1_, norm2_, norm3_;
};

/// num_layers layers `layers.N`, and then `norm`, unless it is null. Each layer has its own initial values.
class TransformerDecoder : public Callable<TransformerDecoder> {
 public:
  /// Errors: those of the layers.
  TransformerDecoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                     const TransformerOptions& options = {}, std::shared_ptr<LayerNorm> norm = nullptr);
  Tensor forward(const Tensor& tgt, const Tensor& memory) { return forward(tgt, memory, {}); }
  /// The masks apply to every layer.
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks);
  [[nodiscard]] ModuleList<TransformerDecoderLayer>& layers() { return layers_; }
  [[nodiscard]] std::string_view class_name() const override { return "TransformerDecoder"; }

 private:
  ModuleList<TransformerDecoderLayer> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace tessera::nn
