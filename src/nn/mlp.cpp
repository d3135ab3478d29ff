// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/mlp.h"

#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/activation.h"

namespace tessera::nn {

MLP::MLP(std::int64_t width, std::int64_t inner, const Options& options)
    : activation_(options.activation),
      fc1_(width, inner, {.bias = options.bias, .dtype = options.dtype}),
      fc2_(inner, width, {.bias = options.bias, .dtype = options.dtype}) {
  register_module("fc1", fc1_);
  register_module("fc2", fc2_);
}

Tensor MLP::forward(const Tensor& x) { return fc2_(activation(fc1_(x), activation_)); }

namespace {

Linear::Options gated_options(const SwiGLU::Options& options) {
  return {.bias = options.bias, .dtype = options.dtype, .standard_deviation = options.standard_deviation};
}

}  // namespace

SwiGLU::SwiGLU(std::int64_t width, std::int64_t inner, const Options& options)
    : activation_(options.activation),
      gate_proj_(width, inner, gated_options(options)),
      up_proj_(width, inner, gated_options(options)),
      down_proj_(inner, width, gated_options(options)) {
  register_module("gate_proj", gate_proj_);
  register_module("up_proj", up_proj_);
  register_module("down_proj", down_proj_);
}

void SwiGLU::shard_tensor_parallel(const ActivationSharding& split) {
  using Entry = PartitionSpec::Entry;
  split_ = split;
  for (Linear* const layer : {&gate_proj_, &up_proj_}) {
    mark_sharding(layer->weight(), split.mesh, {Entry(split.axis), Entry()});
    if (!layer->bias().is_null()) mark_sharding(layer->bias(), split.mesh, {Entry(split.axis)});
  }
  mark_sharding(down_proj_.weight(), split.mesh, {Entry(), Entry(split.axis)});
}

Tensor SwiGLU::forward(const Tensor& x) {
  const Tensor given = gathered(x, split_);
  const int last = x.ndim() - 1;
  const Tensor gate = over_dim(gate_proj_(given), last, split_);
  const Tensor up = over_dim(up_proj_(given), last, split_);
  return over_dim(down_proj_(activation(gate, activation_) * up), 1, split_);
}

}  // namespace tessera::nn
