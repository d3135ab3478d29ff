// SPDX-License-Identifier: Apache-2.0
// Attention, the context of a call and the language-model head.
#include "tessera/nn/models/decoder.h"

#include <utility>

#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {
namespace {

// A spec with one sharded dim.
PartitionSpec one_dim_over(int ndim, int dim, const std::string& axis) {
  std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(ndim));
  entries[static_cast<std::size_t>(dim)] = PartitionSpec::Entry(axis);
  return PartitionSpec(std::move(entries));
}

Type heads_type(const DecoderAttentionOptions& options, Dims dims) {
  return Type::array(options.dtype, std::move(dims));
}

// Adds to the visible slots of a step that a row sees only the `window` slots up to its own: [b | 1, 1, time, slots].
Tensor within_window(const StepPlace& place, std::int64_t time, std::int64_t slots, std::int64_t window) {
  const Type type = Type::array(DType::kS32, {time, slots});
  const Tensor distance = Tensor::iota(type, 0) + place.start - Tensor::iota(type, 1);
  const Tensor near = (distance < static_cast<double>(window)).reshape({1, 1, time, slots});
  return place.visible.is_null() ? near : (place.visible && near);
}

Tensor with_norm(const Tensor& x, std::optional<RMSNorm>& norm) { return norm ? (*norm)(x) : x; }

}  // namespace

DecoderAttention::Projection::Projection(const Type& weight, const Type& bias, Dims file_dims, bool has_bias,
                                         double deviation) {
  const std::int64_t out = file_dims.front();
  weight_ = add_parameter("weight", weight, normal(0, deviation), std::move(file_dims));
  if (has_bias) bias_ = add_parameter("bias", bias, zeros(), {out});
}

DecoderAttention::DecoderAttention(const DecoderAttentionOptions& options, std::string class_name)
    : options_(options),
      class_name_(std::move(class_name)),
      q_proj_(heads_type(options, {options.groups, options.heads / options.groups, options.head_size, options.width}),
              heads_type(options, {options.groups, options.heads / options.groups, options.head_size}),
              {options.heads * options.head_size, options.width}, options.bias, options.initializer_range),
      k_proj_(heads_type(options, {options.groups, options.head_size, options.width}),
              heads_type(options, {options.groups, options.head_size}),
              {options.groups * options.head_size, options.width}, options.bias, options.initializer_range),
      v_proj_(heads_type(options, {options.groups, options.head_size, options.width}),
              heads_type(options, {options.groups, options.head_size}),
              {options.groups * options.head_size, options.width}, options.bias, options.initializer_range),
      o_proj_(heads_type(options, {options.width, options.groups, options.heads / options.groups, options.head_size}),
              heads_type(options, {options.width}), {options.width, options.heads * options.head_size},
              options.output_bias, options.initializer_range) {
  register_module("q_proj", q_proj_);
  register_module("k_proj", k_proj_);
  register_module("v_proj", v_proj_);
  register_module("o_proj", o_proj_);
  if (!options.norm_epsilon) return;
  const RMSNorm::Options norm{.epsilon = *options.norm_epsilon, .dtype = options.dtype};
  register_module("q_norm", q_norm_.emplace(options.head_size, norm));
  register_module("k_norm", k_norm_.emplace(options.head_size, norm));
}

// [b, t, c] -> [b, t, g, ..., d].
Tensor DecoderAttention::projected(const Tensor& x, const Projection& projection) const {
  const Tensor y = dot(at_call(x), projection.weight(),
                       {.lhs_contracting = {2}, .rhs_contracting = {projection.weight().ndim() - 1}});
  return over_dim(projection.bias().is_null() ? y : y + projection.bias(), 2, split_);
}

// Attention of q [b, t, g, r, d] over the keys of this call, or in a step over those of the cache.
Tensor DecoderAttention::mixed(const Tensor& q, const Tensor& k, const Tensor& v, const DecoderContext& context) const {
  if (context.cache == nullptr)
    return attend(q, k, v,
                  {.is_causal = true,
                   .window = options_.window,
                   .mask = context.mask,
                   .dropout = is_training() ? options_.dropout : 0});
  StepPlace place = *context.place;
  if (options_.window > 0)
    place.visible = within_window(place, q.dim(1), context.cache->keys.front().dim(1), options_.window);
  const Tensor heads = q.reshape({q.dim(0), q.dim(1), q.dim(2) * q.dim(3), q.dim(4)});
  return cached_attention(*context.cache, context.layer, place, heads, k, v).reshape(q.dims());
}

Tensor DecoderAttention::forward(const Tensor& x, const DecoderContext& context) {
  const Tensor given = gathered(x, split_);
  const Tensor q = apply_rotary(with_norm(projected(given, q_proj_), q_norm_), context.rotary);  // [b, t, g, r, d]
  const Tensor k = apply_rotary(with_norm(projected(given, k_proj_), k_norm_), context.rotary);  // [b, t, g, d]
  const Tensor heads = mixed(q, k, projected(given, v_proj_), context);
  const Tensor out =
      dot(over_dim(heads, 2, split_), o_proj_.weight(), {.lhs_contracting = {2, 3, 4}, .rhs_contracting = {1, 2, 3}});
  return over_dim(o_proj_.bias().is_null() ? out : out + o_proj_.bias(), 1, split_);
}

void DecoderAttention::shard_tensor_parallel(const ActivationSharding& split) {
  split_ = split;
  for (const Projection* in : {&q_proj_, &k_proj_, &v_proj_}) {
    mark_sharding(in->weight(), split.mesh, one_dim_over(in->weight().ndim(), 0, split.axis));
    if (!in->bias().is_null()) mark_sharding(in->bias(), split.mesh, one_dim_over(in->bias().ndim(), 0, split.axis));
  }
  mark_sharding(o_proj_.weight(), split.mesh, one_dim_over(4, 1, split.axis));
}

DecoderContext decoder_context(RotaryEmbedding& rotary, const Tensor& tokens, const CausalInputs& inputs, DType dtype) {
  check_causal_inputs(tokens, inputs);
  return {.rotary = inputs.position_ids.is_null() ? rotary(tokens.dim(1), dtype) : rotary(inputs.position_ids, dtype),
          .mask = seen_keys(inputs.attention_mask)};
}

LanguageModelHead::LanguageModelHead(const Embedding& embedding, bool is_tied, double initializer_range)
    : is_tied_(is_tied), weight_(embedding.weight()) {
  if (is_tied) {
    add_shared_parameter("weight", weight_);
  } else {
    weight_ = add_parameter("weight", weight_.type(), normal(0, initializer_range));
  }
}

Tensor LanguageModelHead::forward(const Tensor& x) {
  return over_dim(dot(at_call(x), weight_, {.lhs_contracting = {2}, .rhs_contracting = {1}}), 2, split_);
}

void LanguageModelHead::shard_tensor_parallel(const ActivationSharding& split) {
  split_ = split;
  if (!is_tied_) mark_sharding(weight_, split.mesh, one_dim_over(2, 0, split.axis));
}

}  // namespace tessera::nn
