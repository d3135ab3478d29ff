// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/attention.h"

#include <limits>

#include "tessera/frontend/tensor/attention.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {
namespace {

void check_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  require((q.ndim() == 4 || q.ndim() == 5) && k.ndim() == 4 && v.ndim() == 4,
          "attention needs q [b, t, h, d] and k, v [b, s, g, d], got {}, {} and {}", q.type(), k.type(), v.type());
  require(k.dim(0) == q.dim(0) && v.dim(0) == q.dim(0) && k.dim(1) == v.dim(1) && k.dim(3) == q.dim(-1) &&
              k.dim(2) == v.dim(2),
          "attention: q {}, k {} and v {} do not fit together", q.type(), k.type(), v.type());
  require(q.ndim() == 5 ? q.dim(2) == k.dim(2) : q.dim(2) % k.dim(2) == 0,
          "attention: {} heads of keys do not divide {} heads of queries", k.dim(2), q.dim(2));
}

// The op has one mask: -inf in the bias hides a key.
Tensor mask_of(const AttentionOptions& options, DType dtype) {
  if (options.bias.is_null()) return options.mask;
  const Tensor bias = options.bias.to(dtype);
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  return options.mask.is_null() ? bias : where(options.mask, bias, kHidden);
}

AttentionSettings settings_of(const AttentionOptions& options, std::int64_t keys, DType dtype) {
  return {.causal = options.is_causal,
          .window = options.is_causal && options.window < keys ? options.window : 0,
          .mask = mask_of(options, dtype),
          .scale = options.scale,
          .dropout = options.dropout};
}

}  // namespace

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
              std::source_location where) {
  return library_call({&q, &k, &v}, where, [&] {
    check_attention(q, k, v);
    if (q.ndim() == 4) return dot_product_attention(q, k, v, settings_of(options, k.dim(1), q.dtype()));
    const Tensor heads = q.reshape({q.dim(0), q.dim(1), q.dim(2) * q.dim(3), q.dim(4)});
    const Tensor out = dot_product_attention(heads, k, v, settings_of(options, k.dim(1), q.dtype()));
    return out.reshape({q.dim(0), q.dim(1), q.dim(2), q.dim(3), v.dim(-1)});
  });
}

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, const Options& options)
    : options_(options),
      heads_(num_heads),
      head_size_(num_heads >= 1 ? embed_dim / num_heads : 0),
      out_proj_(embed_dim, embed_dim, {.bias = options.bias, .dtype = options.dtype}) {
  require(num_heads >= 1 && embed_dim % num_heads == 0,
          "MultiheadAttention: embed_dim {} is not a multiple of {} heads", embed_dim, num_heads);
  const std::int64_t kdim = options.kdim == 0 ? embed_dim : options.kdim;
  const std::int64_t vdim = options.vdim == 0 ? embed_dim : options.vdim;
  if (kdim == embed_dim && vdim == embed_dim) {
    in_proj_weight_ = add_parameter("in_proj_weight", Type::array(options.dtype, {3, heads_, head_size_, embed_dim}),
                                    xavier_uniform(embed_dim, 3 * embed_dim), {3 * embed_dim, embed_dim});
  } else {
    const std::int64_t widths[] = {embed_dim, kdim, vdim};
    const char* const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    for (std::size_t i = 0; i < 3; ++i)
      separate_[i] = add_parameter(names[i], Type::array(options.dtype, {heads_, head_size_, widths[i]}),
                                   xavier_uniform(widths[i], embed_dim), {embed_dim, widths[i]});
  }
  if (options.bias) {
    in_proj_bias_ =
        add_parameter("in_proj_bias", Type::array(options.dtype, {3, heads_, head_size_}), zeros(), {3 * embed_dim});
    set_initializer(out_proj_.bias(), zeros());
  }
  register_module("out_proj", out_proj_);
}

// [b, t, width] -> [b, t, h, d].
Tensor MultiheadAttention::projected(const Tensor& x, int which) const {
  const Tensor weight =
      in_proj_weight_.is_null() ? separate_[which] : in_proj_weight_.select(0, which);  // [h, d, width]
  require(x.dim(-1) == weight.dim(-1), "MultiheadAttention: argument {} needs the width {}, got {}", which,
          weight.dim(-1), x.type());
  const Tensor y = dot(at_call(x), weight, {.lhs_contracting = {2}, .rhs_contracting = {2}});
  return in_proj_bias_.is_null() ? y : y + in_proj_bias_.select(0, which);
}

AttentionOptions MultiheadAttention::options_of(const Masks& masks, const Tensor& query, const Tensor& key) const {
  AttentionOptions out{.is_causal = masks.is_causal, .dropout = is_training() ? options_.dropout : 0};
  const std::int64_t b = query.dim(0), s = key.dim(1);
  if (!masks.attn_mask.is_null()) {
    Tensor mask = masks.attn_mask;
    if (mask.ndim() == 2) mask = mask.reshape({1, 1, mask.dim(0), mask.dim(1)});
    if (mask.ndim() == 3) mask = mask.reshape({b, heads_, mask.dim(1), mask.dim(2)});
    (is_float(mask.dtype()) ? out.bias : out.mask) = is_float(mask.dtype()) ? mask : !mask;
  }
  if (!masks.key_padding_mask.is_null()) {
    require(masks.key_padding_mask.dims() == (Dims{b, s}) && !is_float(masks.key_padding_mask.dtype()),
            "MultiheadAttention: key_padding_mask needs booleans [{}, {}], got {}", b, s,
            [&] { return masks.key_padding_mask.type().str(); });
    const Tensor kept = (!masks.key_padding_mask).reshape({b, 1, 1, s});
    out.mask = out.mask.is_null() ? kept : (out.mask && kept);
  }
  return out;
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value) {
  return forward(query, key, value, Masks());
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value, const Masks& masks) {
  for (const Tensor* x : {&query, &key, &value})
    require(x->ndim() == 3, "MultiheadAttention needs {}, got {}",
            options_.batch_first ? "[batch, time, width]" : "[time, batch, width]", x->type());
  const auto batched = [&](const Tensor& x) { return options_.batch_first ? x : x.transpose({1, 0, 2}); };
  const Tensor q = batched(query), k = batched(key), v = batched(value);
  const Tensor mixed = attend(projected(q, 0), projected(k, 1), projected(v, 2), options_of(masks, q, k));
  const Tensor out = out_proj_(mixed.reshape({q.dim(0), q.dim(1), heads_ * head_size_}));
  return batched(out);
}

}  // namespace tessera::nn
