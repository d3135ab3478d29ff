// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/transformer/transformer.h"

#include <limits>

#include "tessera/frontend/tensor/creation.h"
#include "tessera/nn/initializers.h"
#include "transformer/layer_parts.h"

namespace tessera::nn {

Transformer::Transformer(std::int64_t d_model, std::int64_t nhead, std::int64_t num_encoder_layers,
                         std::int64_t num_decoder_layers, const TransformerOptions& options)
    : batch_first_(options.batch_first),
      encoder_(d_model, nhead, num_encoder_layers, options,
               std::make_shared<LayerNorm>(d_model, detail::norm_options(options))),
      decoder_(d_model, nhead, num_decoder_layers, options,
               std::make_shared<LayerNorm>(d_model, detail::norm_options(options))) {
  register_module("encoder", encoder_);
  register_module("decoder", decoder_);
  for (const NamedParameter& each : named_parameters())
    if (const Dims& dims = each.exported_dims; dims.size() == 2)
      set_initializer(each.tensor, xavier_uniform(dims[1], dims[0]));
}

Tensor Transformer::forward(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks) {
  const int batch = batch_first_ ? 0 : 1;
  require(src.ndim() == 3 && tgt.ndim() == 3 && src.dim(batch) == tgt.dim(batch),
          "Transformer: src and tgt must be [{}, d_model] with the same batch, got {} and {}",
          batch_first_ ? "batch, time" : "time, batch", src.type(), tgt.type());
  const Tensor memory = encoder_(src, EncoderMasks{masks.src_mask, masks.src_key_padding_mask, masks.src_is_causal});
  return decoder_(tgt, memory,
                  DecoderMasks{masks.tgt_mask, masks.memory_mask, masks.tgt_key_padding_mask,
                               masks.memory_key_padding_mask, masks.tgt_is_causal, masks.memory_is_causal});
}

Tensor Transformer::generate_square_subsequent_mask(std::int64_t size, DType dtype) {
  const Tensor positions = arange(size);
  const Tensor is_seen = positions.reshape({1, size}) <= positions.reshape({size, 1});
  return where(is_seen, tessera::zeros({size, size}, dtype), -std::numeric_limits<double>::infinity());
}

}  // namespace tessera::nn
