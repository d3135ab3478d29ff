// SPDX-License-Identifier: Apache-2.0
// Attention layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tessera/nn/activation.h"
#include "tessera/nn/linear.h"

namespace tessera::nn {

/// The options of attend().
struct AttentionOptions {
  bool is_causal = false;
  std::int64_t window = 0;        // not 0: with is_causal, a position attends to this many positions, including itself
  Tensor mask{};                  // null, or booleans that broadcast to [b, h, t, s]: true where a row attends to a key
  Tensor bias{};                  // null, or floats broadcast to [b, h, t, s], added to the scores
  std::optional<double> scale{};  // nullopt: 1 / sqrt(d)
  double dropout = 0;             // of the weights
};
/// softmax(q k^T * scale + bias) v for q [b, t, h, d] and k, v [b, s, g, d]; h / g consecutive heads share a key head.
/// Returns [b, t, h, d]. If q is [b, t, g, h / g, d], the result has the same dims. The result of a row that attends to
/// no key is zero. Reads no value on the host.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {},
              std::source_location where = std::source_location::current());

/// torch.nn.MultiheadAttention. The call returns only the output, not the attention weights. The forward pass reads no
/// value on the host. State dicts and files have PyTorch's names and shapes. In memory, the h heads of size d = e / h are
/// a dim of their own, so that they can be sharded, for e = embed_dim:
///
///   name              in memory      in files     parameter of
///   in_proj_weight    [3, h, d, e]   [3 e, e]     layers without kdim and vdim: queries, keys and values
///   q_proj_weight     [h, d, e]      [e, e]       layers whose kdim or vdim is not e, in place of in_proj_weight
///   k_proj_weight     [h, d, kdim]   [e, kdim]    the same
///   v_proj_weight     [h, d, vdim]   [e, vdim]    the same
///   in_proj_bias      [3, h, d]      [3 e]        layers with bias
///   out_proj.weight   [e, e]         [e, e]       all layers
///   out_proj.bias     [e]            [e]          layers with bias
class MultiheadAttention : public Callable<MultiheadAttention> {
 public:
  struct Options {
    double dropout = 0;
    bool bias = true;
    std::int64_t kdim = 0;  // 0: embed_dim
    std::int64_t vdim = 0;
    bool batch_first = false;
    DType dtype = DType::kF32;
  };
  struct Masks {
    Tensor key_padding_mask{};  // booleans [b, s]: true for keys that are ignored, as in PyTorch
    /// Booleans, true where attention is not allowed, or floats that are added: [t, s], [b, h, t, s] or [b * h, t, s].
    Tensor attn_mask{};
    bool is_causal = false;
  };
  /// Error unless num_heads divides embed_dim.
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads)
      : MultiheadAttention(embed_dim, num_heads, Options()) {}
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, const Options& options);
  /// query [t, b, e], key [s, b, k], value [s, b, v] -> [t, b, e]; with batch_first, b is the first dim.
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value);
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value, const Masks& masks);
  /// Null if kdim or vdim is not embed_dim: parameter("q_proj_weight") and the others then have the weights.
  [[nodiscard]] Tensor in_proj_weight() const { return in_proj_weight_; }
  /// Null without bias.
  [[nodiscard]] Tensor in_proj_bias() const { return in_proj_bias_; }
  [[nodiscard]] Linear& out_proj() { return out_proj_; }
  [[nodiscard]] std::string_view class_name() const override { return "MultiheadAttention"; }

 private:
  Tensor projected(const Tensor& x, int which) const;
  AttentionOptions options_of(const Masks& masks, const Tensor& query, const Tensor& key) const;

  Options options_;
  std::int64_t heads_, head_size_;
  Tensor in_proj_weight_, in_proj_bias_;
  Tensor separate_[3];
  Linear out_proj_;
};

}  // namespace tessera::nn
