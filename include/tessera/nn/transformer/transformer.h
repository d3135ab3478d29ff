// SPDX-License-Identifier: Apache-2.0
// The transformer of an encoder and a decoder, with PyTorch's arguments and names of parameters.
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/nn/transformer/decoder.h"
#include "tessera/nn/transformer/encoder.h"

namespace tessera::nn {

/// The masks of EncoderMasks and DecoderMasks.
struct TransformerMasks {
  Tensor src_mask{};
  Tensor tgt_mask{};
  Tensor memory_mask{};
  Tensor src_key_padding_mask{};
  Tensor tgt_key_padding_mask{};
  Tensor memory_key_padding_mask{};  // usually that of the source
  bool src_is_causal = false;
  bool tgt_is_causal = false;
  bool memory_is_causal = false;
};

/// decoder(tgt, encoder(src)). Encoder and decoder end with a layer norm. Matrices start from xavier_uniform.
class Transformer : public Callable<Transformer> {
 public:
  /// Errors: those of TransformerEncoderLayer.
  explicit Transformer(std::int64_t d_model = 512, std::int64_t nhead = 8, std::int64_t num_encoder_layers = 6,
                       std::int64_t num_decoder_layers = 6, const TransformerOptions& options = {});
  /// src [s, b, d_model] and tgt [t, b, d_model]; with batch_first, b is the first dim. The result has the shape of
  /// tgt.
  Tensor forward(const Tensor& src, const Tensor& tgt) { return forward(src, tgt, {}); }
  /// Error if src and tgt differ in b or are not d_model wide.
  Tensor forward(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks);
  /// f32[size, size]: 0 where column <= row, else -infinity. As a mask that is added to the scores, it has the effect
  /// of is_causal.
  static Tensor generate_square_subsequent_mask(std::int64_t size, DType dtype = DType::kF32);
  [[nodiscard]] TransformerEncoder& encoder() { return encoder_; }
  [[nodiscard]] TransformerDecoder& decoder() { return decoder_; }
  [[nodiscard]] std::string_view class_name() const override { return "Transformer"; }

 private:
  bool batch_first_;
  TransformerEncoder encoder_;
  TransformerDecoder decoder_;
};

}  // namespace tessera::nn
