// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/activation.h"

#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::nn {
namespace {

Tensor silu_of(const Tensor& x) { return at_call(x) * sigmoid(at_call(x)); }

struct NamedActivation {
  const char* name;
  Tensor (*apply)(const Tensor&);
};
constexpr NamedActivation kActivations[] = {
    {"gelu", [](const Tensor& x) { return gelu(at_call(x)); }},
    {"gelu_new", [](const Tensor& x) { return gelu_new(at_call(x)); }},
    {"gelu_pytorch_tanh", [](const Tensor& x) { return gelu_new(at_call(x)); }},
    {"relu", [](const Tensor& x) { return relu(at_call(x)); }},
    {"sigmoid", [](const Tensor& x) { return sigmoid(at_call(x)); }},
    {"silu", silu_of},
    {"swish", silu_of},
    {"tanh", [](const Tensor& x) { return tanh(at_call(x)); }},
};

}  // namespace

Tensor ReLU::forward(const Tensor& x) { return relu(at_call(x)); }
Tensor GELU::forward(const Tensor& x) { return approximate_ ? gelu_new(at_call(x)) : gelu(at_call(x)); }
Tensor SiLU::forward(const Tensor& x) { return silu_of(x); }
Tensor Tanh::forward(const Tensor& x) { return tanh(at_call(x)); }
Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(at_call(x)); }
Tensor LeakyReLU::forward(const Tensor& x) { return leaky_relu(at_call(x), negative_slope_); }
Tensor ELU::forward(const Tensor& x) { return elu(at_call(x), alpha_); }
Tensor SELU::forward(const Tensor& x) { return selu(at_call(x)); }
Tensor Hardsigmoid::forward(const Tensor& x) { return hardsigmoid(at_call(x)); }
Tensor Hardswish::forward(const Tensor& x) { return hardswish(at_call(x)); }
Tensor Mish::forward(const Tensor& x) { return mish(at_call(x)); }
Tensor Softmax::forward(const Tensor& x) { return softmax(at_call(x), dim_); }
Tensor LogSoftmax::forward(const Tensor& x) { return log_softmax(at_call(x), dim_); }

Softplus::Softplus(double beta) : beta_(beta) { require(beta > 0, "Softplus: beta must be positive, got {}", beta); }
Tensor Softplus::forward(const Tensor& x) { return softplus(at_call(x), beta_); }

Dropout::Dropout(double p) : p_(p) {
  require(p >= 0 && p < 1, "Dropout: the probability must be in [0, 1), got {}", p);
}
Tensor Dropout::forward(const Tensor& x) { return is_training() && p_ > 0 ? dropout(at_call(x), p_) : x; }

const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> out;
    for (const auto& row : kActivations) out.emplace_back(row.name);
    return out;
  }();
  return kNames;
}

Tensor activation(const Tensor& x, std::string_view name) {
  for (const auto& row : kActivations)
    if (row.name == name) return row.apply(x);
  fail("unknown activation \"{}\"{}", name, suggest_name(name, activation_names()));
}

}  // namespace tessera::nn
