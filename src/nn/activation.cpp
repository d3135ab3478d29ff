// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/activation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {
namespace {

Tensor silu_of(const Tensor& x) { return at_call(x) * sigmoid(at_call(x)); }
Tensor gelu_of(const Tensor& x) { return gelu(at_call(x)); }
Tensor gelu_new_of(const Tensor& x) { return gelu_new(at_call(x)); }

// Hugging Face's constant is rounded to ten digits.
Tensor gelu_fast_of(const Tensor& x) {
  const Tensor inner = tanh(at_call(x) * 0.7978845608 * (1.0 + 0.044715 * at_call(x) * at_call(x)));
  return at_call(x) * 0.5 * (1.0 + inner);
}

// The distribution function of a normal distribution, as in MEGA (Ma et al., 2022).
Tensor laplace_of(const Tensor& x) {
  constexpr double kMean = 0.707107;
  constexpr double kDeviation = 0.282095;
  return 0.5 * (1.0 + erf((at_call(x) - kMean) * (1 / (kDeviation * std::numbers::sqrt2))));
}

// Far below 0, softplus(x) is exp(x), whose root would have the gradient inf * 0.
Tensor sqrt_softplus_of(const Tensor& x) {
  constexpr double kFar = -40;
  const Tensor near = sqrt(softplus(maximum(at_call(x), kFar)));
  return where(at_call(x) < kFar, exp(minimum(at_call(x), kFar) * 0.5), near);
}

struct NamedActivation {
  const char* name;
  Tensor (*apply)(const Tensor&);
};
constexpr NamedActivation kActivations[] = {
    {"gelu", gelu_of},
    {"gelu_10", [](const Tensor& x) { return clamp(gelu(at_call(x)), -10, 10); }},
    {"gelu_accurate", gelu_new_of},
    {"gelu_fast", gelu_fast_of},
    {"gelu_new", gelu_new_of},
    {"gelu_python", gelu_of},
    {"gelu_python_tanh", gelu_new_of},
    {"gelu_pytorch_tanh", gelu_new_of},
    {"hardswish", [](const Tensor& x) { return hardswish(at_call(x)); }},
    {"laplace", laplace_of},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(at_call(x)); }},
    {"linear", [](const Tensor& x) { return x; }},
    {"mish", [](const Tensor& x) { return mish(at_call(x)); }},
    {"quick_gelu", [](const Tensor& x) { return at_call(x) * sigmoid(at_call(x) * 1.702); }},
    {"relu", [](const Tensor& x) { return relu(at_call(x)); }},
    {"relu2", [](const Tensor& x) { return square(relu(at_call(x))); }},
    {"relu6", [](const Tensor& x) { return relu6(at_call(x)); }},
    {"sigmoid", [](const Tensor& x) { return sigmoid(at_call(x)); }},
    {"silu", silu_of},
    {"sqrtsoftplus", sqrt_softplus_of},
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

Tensor ReLU6::forward(const Tensor& x) { return relu6(at_call(x)); }
Tensor Threshold::forward(const Tensor& x) { return threshold(at_call(x), threshold_, value_); }
Tensor LogSigmoid::forward(const Tensor& x) { return log_sigmoid(at_call(x)); }
Tensor GLU::forward(const Tensor& x) { return glu(at_call(x), dim_); }
Tensor Softmin::forward(const Tensor& x) { return softmin(at_call(x), dim_); }

Hardtanh::Hardtanh(double min_val, double max_val) : min_val_(min_val), max_val_(max_val) {
  require(min_val < max_val, "Hardtanh: min_val must be below max_val, got {} and {}", min_val, max_val);
}
Tensor Hardtanh::forward(const Tensor& x) { return hardtanh(at_call(x), min_val_, max_val_); }

CELU::CELU(double alpha) : alpha_(alpha) { require(alpha != 0, "CELU: alpha must not be 0"); }
Tensor CELU::forward(const Tensor& x) { return celu(at_call(x), alpha_); }

PReLU::PReLU(std::int64_t num_parameters, double init, DType dtype) {
  require(num_parameters >= 1, "PReLU needs at least one slope, got {}", num_parameters);
  weight_ = add_parameter("weight", Type::array(dtype, {num_parameters}), constant(init));
}
Tensor PReLU::forward(const Tensor& x) { return prelu(at_call(x), weight_); }

namespace {

// True for the elements that remain. Drawn in f32 for every element type, as the masks of dropout().
Tensor remaining(const Dims& dims, double p, const std::source_location& where) {
  return dropout({Tensor::ones(Type::array(DType::kF32, dims), where), where}, p) > 0.0;
}

}  // namespace

void detail::check_dropout(std::string_view layer, double p) {
  require(p >= 0 && p < 1, "{}: the probability must be in [0, 1), got {}", layer, p);
}

Tensor detail::drop_channels(std::string_view layer, const Tensor& x, double p, int dims) {
  require(x.ndim() == dims, "{} needs channels [n, c, ...] of {} dims, got {}", layer, dims, x.type());
  Dims mask(x.dims().size(), 1);
  std::copy_n(x.dims().begin(), 2, mask.begin());
  return where(remaining(mask, p, current_call()), at_call(x) * (1 / (1 - p)), 0.0);
}

AlphaDropout::AlphaDropout(double p) : p_(p) { detail::check_dropout("AlphaDropout", p); }
Tensor AlphaDropout::forward(const Tensor& x) {
  if (!is_training() || p_ == 0) return x;
  constexpr double kLeast = -1.7580993408473766;  // of SELU
  const double scale = 1 / std::sqrt((1 - p_) * (1 + kLeast * kLeast * p_));
  const Tensor kept = where(remaining(x.dims(), p_, detail::current_call()), at_call(x), kLeast);
  return kept * scale - kLeast * scale * p_;
}

Dropout::Dropout(double p) : p_(p) { detail::check_dropout("Dropout", p); }
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
