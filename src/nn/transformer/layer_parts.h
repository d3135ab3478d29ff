// SPDX-License-Identifier: Apache-2.0
// What the layers of encoders and decoders have in common.
#pragma once

#include <string_view>

#include "tessera/frontend/tensor/pointwise.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/transformer/encoder.h"

namespace tessera::nn::detail {

inline MultiheadAttention::Options attention_options(const TransformerOptions& options) {
  return {.dropout = options.dropout, .bias = options.bias, .batch_first = options.batch_first, .dtype = options.dtype};
}
inline Linear::Options linear_options(const TransformerOptions& options) {
  return {.bias = options.bias, .dtype = options.dtype};
}
inline LayerNorm::Options norm_options(const TransformerOptions& options) {
  return {.epsilon = options.layer_norm_eps, .bias = options.bias, .dtype = options.dtype};
}

/// Error, with the nearest name, if the activation is unknown.
void check_activation(std::string_view layer, const TransformerOptions& options);
/// Error unless x is [time, batch, d_model], or [batch, time, d_model] with batch_first.
void check_sequence(std::string_view layer, std::string_view name, const Tensor& x, std::int64_t d_model,
                    bool batch_first);

/// x + dropout(part(norm(x))), or norm(x + dropout(part(x))).
template <class Part>
Tensor with_residual(const Tensor& x, LayerNorm& norm, Dropout& dropout, bool norm_first, Part&& part) {
  if (norm_first) return at_call(x) + dropout(part(norm(x)));
  return norm(at_call(x) + dropout(part(x)));
}

/// linear2(dropout(activation(linear1(x)))).
inline Tensor feed_forward(const Tensor& x, Linear& linear1, Linear& linear2, Dropout& dropout,
                           std::string_view activation_name) {
  return linear2(dropout(activation(linear1(x), activation_name)));
}

}  // namespace tessera::nn::detail
