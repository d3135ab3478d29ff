// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/attention.h"

#include <cmath>

#include "tessera/frontend/tensor/attention.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {
namespace {

constexpr double kNever = -1e30;  // finite, so that no inf - inf arises

void check_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  require((q.ndim() == 4 || q.ndim() == 5) && k.ndim() == 4 && v.ndim() == 4,
          "attention needs q [b, t, h, d] and k, v [b, s, g, d], got {}, {} and {}", q.type(), k.type(), v.type());
  require(k.dim(0) == q.dim(0) && v.dim(0) == q.dim(0) && k.dim(1) == v.dim(1) && k.dim(3) == q.dim(-1) &&
              k.dim(2) == v.dim(2),
          "attention: q {}, k {} and v {} do not fit together", q.type(), k.type(), v.type());
  require(q.ndim() == 5 ? q.dim(2) == k.dim(2) : q.dim(2) % k.dim(2) == 0,
          "attention: {} heads of keys do not divide {} heads of queries", k.dim(2), q.dim(2));
}

// [b | 1, h | 1, t | 1, s] -> [b | 1, g | 1, t | 1, r | 1, s], the order of the scores.
Tensor in_groups(const Tensor& mask, std::int64_t groups) {
  require(mask.ndim() == 4, "attention: a mask needs the dims [b, h, t, s], got {}", mask.type());
  const Dims& d = mask.dims();
  if (d[1] == 1) return mask.reshape({d[0], 1, d[2], 1, d[3]});
  return mask.reshape({d[0], groups, d[1] / groups, d[2], d[3]}).transpose({0, 1, 3, 2, 4});
}

Tensor causal(std::int64_t t, std::int64_t s, std::int64_t window) {
  const Type square = Type::array(DType::kS32, {t, s});
  const Tensor query = Tensor::iota(square, 0), key = Tensor::iota(square, 1);
  const Tensor before = query >= key;
  return window == 0 || window >= s ? before : (before && query - key < static_cast<double>(window));
}

// The op has neither windows nor masks of both kinds.
bool is_of_op(const AttentionOptions& options, std::int64_t keys) {
  return (options.window == 0 || options.window >= keys) && (options.bias.is_null() || options.mask.is_null());
}

Tensor attend_by_op(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const Tensor mask = options.bias.is_null() ? options.mask : options.bias.to(q.dtype());
  const AttentionSettings settings{
      .causal = options.is_causal, .mask = mask, .scale = options.scale, .dropout = options.dropout};
  if (q.ndim() == 4) return dot_product_attention(q, k, v, settings);
  const Tensor heads = q.reshape({q.dim(0), q.dim(1), q.dim(2) * q.dim(3), q.dim(4)});
  return dot_product_attention(heads, k, v, settings).reshape({q.dim(0), q.dim(1), q.dim(2), q.dim(3), v.dim(-1)});
}

Tensor attend_by_products(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const std::int64_t b = q.dim(0), t = q.dim(1), d = q.dim(-1), s = k.dim(1), g = k.dim(2);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(d)));
  const Tensor grouped = q.ndim() == 5 ? q : q.reshape({b, t, g, q.dim(2) / g, d});
  // [b, g, t, r, s]
  Tensor scores =
      dot(grouped, k, {.lhs_contracting = {4}, .rhs_contracting = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}}) *
      scale;
  if (!options.bias.is_null()) scores = scores + in_groups(options.bias, g).to(scores.dtype());
  Tensor seen;
  if (options.is_causal) seen = causal(t, s, options.window).reshape({t, 1, s});
  if (!options.mask.is_null()) {
    const Tensor mask = in_groups(options.mask, g);
    seen = seen.is_null() ? mask : (seen && mask);
  }
  Tensor weights = softmax(seen.is_null() ? scores : where(seen, scores, kNever), -1);
  if (!options.mask.is_null()) weights = where(seen, weights, 0.0);  // rows that see no key
  if (options.dropout > 0) weights = dropout(weights, options.dropout);
  const Tensor mixed =
      dot(weights, v, {.lhs_contracting = {4}, .rhs_contracting = {1}, .lhs_batch = {0, 1}, .rhs_batch = {0, 2}});
  const Tensor by_time = mixed.transpose({0, 2, 1, 3, 4});
  return q.ndim() == 5 ? by_time : by_time.reshape(q.dims());
}

}  // namespace

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
              std::source_location where) {
  return library_call({&q, &k, &v}, where, [&] {
    check_attention(q, k, v);
    return is_of_op(options, k.dim(1)) ? attend_by_op(q, k, v, options) : attend_by_products(q, k, v, options);
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
  // PyTorch's xavier_uniform of the matrix.
  const auto xavier = [](std::int64_t in, std::int64_t out) {
    const double bound = std::sqrt(6.0 / static_cast<double>(in + out));
    return uniform(-bound, bound);
  };
  if (kdim == embed_dim && vdim == embed_dim) {
    in_proj_weight_ = add_parameter("in_proj_weight", Type::array(options.dtype, {3, heads_, head_size_, embed_dim}),
                                    xavier(embed_dim, 3 * embed_dim), {3 * embed_dim, embed_dim});
  } else {
    const std::int64_t widths[] = {embed_dim, kdim, vdim};
    const char* const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    for (std::size_t i = 0; i < 3; ++i)
      separate_[i] = add_parameter(names[i], Type::array(options.dtype, {heads_, head_size_, widths[i]}),
                                   xavier(widths[i], embed_dim), {embed_dim, widths[i]});
  }
  if (options.bias)
    in_proj_bias_ =
        add_parameter("in_proj_bias", Type::array(options.dtype, {3, heads_, head_size_}), zeros(), {3 * embed_dim});
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
