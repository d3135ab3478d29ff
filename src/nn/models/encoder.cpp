// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/encoder.h"

#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/attention.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {
namespace {

void mark_dim(const Tensor& tensor, int dim, const ActivationSharding& split) {
  if (tensor.is_null()) return;
  std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(tensor.ndim()));
  at(entries, dim) = PartitionSpec::Entry(split.axis);
  mark_sharding(tensor, split.mesh, PartitionSpec(std::move(entries)));
}

}  // namespace

HeadsLinear::HeadsLinear(std::int64_t in, std::int64_t heads, std::int64_t head_size, const Options& options) {
  weight_ = add_parameter("weight", Type::array(options.dtype, {heads, head_size, in}),
                          normal(0, options.standard_deviation), {heads * head_size, in});
  if (options.bias)
    bias_ = add_parameter("bias", Type::array(options.dtype, {heads, head_size}), zeros(), {heads * head_size});
}

Tensor HeadsLinear::forward(const Tensor& x) {
  const Tensor y = dot(at_call(x), weight_, {.lhs_contracting = {2}, .rhs_contracting = {2}});
  return bias_.is_null() ? y : at_call(y) + bias_;
}

EncoderSelfAttention::EncoderSelfAttention(const Options& options)
    : heads_(options.heads),
      head_size_(options.hidden_size / options.heads),
      dropout_(options.dropout),
      query_(options.hidden_size, heads_, head_size_, {options.bias, options.standard_deviation, options.dtype}),
      key_(options.hidden_size, heads_, head_size_, {options.bias, options.standard_deviation, options.dtype}),
      value_(options.hidden_size, heads_, head_size_, {options.bias, options.standard_deviation, options.dtype}) {
  add_module("query", query_);
  add_module("key", key_);
  add_module("value", value_);
}

Tensor EncoderSelfAttention::forward(const Tensor& x, const Tensor& mask) {
  const Tensor complete = gathered(x, split_);
  const Tensor q = over_dim(query_(complete), 2, split_);
  const Tensor k = over_dim(key_(complete), 2, split_);
  const Tensor v = over_dim(value_(complete), 2, split_);
  const Tensor seen = mask.is_null() ? mask : mask.reshape({mask.dim(0), 1, 1, mask.dim(1)});
  const Tensor mixed = attend(q, k, v, {.mask = seen, .dropout = is_training() ? dropout_ : 0});
  return over_dim(mixed.reshape({x.dim(0), x.dim(1), heads_ * head_size_}), 2, split_);
}

void EncoderSelfAttention::shard(const ActivationSharding& split) {
  split_ = split;
  for (const HeadsLinear* layer : {&query_, &key_, &value_}) {
    mark_dim(layer->weight(), 0, split);
    mark_dim(layer->bias(), 0, split);
  }
}

void shard_outputs(const Linear& layer, const ActivationSharding& split) {
  mark_dim(layer.weight(), 0, split);
  mark_dim(layer.bias(), 0, split);
}
void shard_inputs(const Linear& layer, const ActivationSharding& split) { mark_dim(layer.weight(), 1, split); }

}  // namespace tessera::nn
