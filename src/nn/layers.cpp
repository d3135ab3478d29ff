// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/layers.h"

#include <cmath>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {

Linear::Linear(std::int64_t in, std::int64_t out, const Options& options) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  weight_ = add_parameter("weight", Type::array(options.dtype, {out, in}), uniform(-bound, bound));
  if (options.bias) bias_ = add_parameter("bias", Type::array(options.dtype, {out}), uniform(-bound, bound));
}

Tensor Linear::forward(const Tensor& x) {
  const Tensor y = dot(at_call(x), weight_, {.lhs_contracting = {x.ndim() - 1}, .rhs_contracting = {1}});
  return bias_.is_null() ? y : at_call(y) + bias_;
}

Conv1D::Conv1D(std::int64_t in, std::int64_t out, double standard_deviation, DType dtype) {
  weight_ = add_parameter("weight", Type::array(dtype, {in, out}), normal(0, standard_deviation));
  bias_ = add_parameter("bias", Type::array(dtype, {out}), zeros());
}
Tensor Conv1D::forward(const Tensor& x) { return at_call(matmul(at_call(x), weight_)) + bias_; }

Embedding::Embedding(std::int64_t count, std::int64_t width, double standard_deviation, DType dtype) {
  weight_ = add_parameter("weight", Type::array(dtype, {count, width}), normal(0, standard_deviation));
}
Tensor Embedding::forward(const Tensor& ids) { return embedding(at_call(weight_), ids); }

LayerNorm::LayerNorm(std::int64_t width, double epsilon, DType dtype) : epsilon_(epsilon) {
  weight_ = add_parameter("weight", Type::array(dtype, {width}), ones());
  bias_ = add_parameter("bias", Type::array(dtype, {width}), zeros());
}
Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(at_call(x), weight_, bias_, epsilon_); }

Tensor Dropout::forward(const Tensor& x) { return is_training() && p_ > 0 ? dropout(at_call(x), p_) : x; }

Tensor GELU::forward(const Tensor& x) { return approximate_ ? gelu_new(at_call(x)) : gelu(at_call(x)); }

}  // namespace tessera::nn
