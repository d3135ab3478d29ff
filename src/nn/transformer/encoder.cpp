// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/transformer/encoder.h"

#include "transformer/layer_parts.h"

namespace tessera::nn {

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerOptions& options)
    : d_model_(d_model),
      options_(options),
      self_attn_(d_model, nhead, detail::attention_options(options)),
      linear1_(d_model, options.dim_feedforward, detail::linear_options(options)),
      dropout_(options.dropout),
      linear2_(options.dim_feedforward, d_model, detail::linear_options(options)),
      norm1_(d_model, detail::norm_options(options)),
      norm2_(d_model, detail::norm_options(options)) {
  detail::check_activation("TransformerEncoderLayer", options);
  register_module("self_attn", self_attn_);
  register_module("linear1", linear1_);
  register_module("dropout", dropout_);
  register_module("linear2", linear2_);
  register_module("norm1", norm1_);
  register_module("norm2", norm2_);
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const EncoderMasks& masks) {
  detail::check_sequence(class_name(), "src", src, d_model_, options_.batch_first);
  const MultiheadAttention::Masks of_self{masks.src_key_padding_mask, masks.src_mask, masks.is_causal};
  const bool first = options_.norm_first;
  const Tensor attended = detail::with_residual(src, norm1_, dropout_, first,
                                                [&](const Tensor& x) { return self_attn_(x, x, x, of_self); });
  return detail::with_residual(attended, norm2_, dropout_, first, [&](const Tensor& x) {
    return detail::feed_forward(x, linear1_, linear2_, dropout_, options_.activation);
  });
}

TransformerEncoder::TransformerEncoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                                       const TransformerOptions& options, std::shared_ptr<LayerNorm> norm)
    : norm_(std::move(norm)) {
  require(num_layers >= 0, "TransformerEncoder: num_layers must not be negative, got {}", num_layers);
  register_module("layers", layers_);
  for (std::int64_t i = 0; i < num_layers; ++i) layers_.emplace(d_model, nhead, options);
  if (norm_) register_module("norm", norm_);
}

Tensor TransformerEncoder::forward(const Tensor& src, const EncoderMasks& masks) {
  Tensor x = src;
  for (const auto& layer : layers_) x = (*layer)(x, masks);
  return norm_ ? (*norm_)(x) : x;
}

}  // namespace tessera::nn
