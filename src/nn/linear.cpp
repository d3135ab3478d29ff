// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/linear.h"

#include <cmath>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {

Linear::Linear(std::int64_t in, std::int64_t out, const Options& options) {
  require(in >= 1 && out >= 1, "Linear needs positive widths, got {} and {}", in, out);
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const double deviation = options.standard_deviation;
  weight_ = add_parameter("weight", Type::array(options.dtype, {out, in}),
                          deviation > 0 ? normal(0, deviation) : uniform(-bound, bound));
  if (!options.bias) return;
  bias_ = add_parameter("bias", Type::array(options.dtype, {out}), deviation > 0 ? zeros() : uniform(-bound, bound));
}

Tensor Linear::forward(const Tensor& x) {
  (void)library_call({&x, &weight_}, trace().call_site(std::source_location::current()), [&] {
    const std::int64_t in = weight_.dim(1);
    require(x.ndim() >= 1 && x.dim(-1) == in, "Linear of {} inputs needs x [..., {}], got {}", in, in, x.type());
    return x;
  });
  const Tensor y = dot(at_call(x), weight_, {.lhs_contracting = {x.ndim() - 1}, .rhs_contracting = {1}});
  return bias_.is_null() ? y : at_call(y) + bias_;
}

Bilinear::Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, const Options& options) {
  require(in1 >= 1 && in2 >= 1 && out >= 1, "Bilinear needs positive widths, got {}, {} and {}", in1, in2, out);
  const double bound = 1 / std::sqrt(static_cast<double>(in1));
  weight_ = add_parameter("weight", Type::array(options.dtype, {out, in1, in2}), uniform(-bound, bound));
  if (options.bias) bias_ = add_parameter("bias", Type::array(options.dtype, {out}), uniform(-bound, bound));
}

Tensor Bilinear::forward(const Tensor& x1, const Tensor& x2) {
  const auto fits = [&] {
    if (x1.ndim() < 1 || x1.ndim() != x2.ndim()) return false;
    Dims given = x1.dims();
    given.back() = weight_.dim(2);
    return x1.dim(-1) == weight_.dim(1) && x2.dims() == given;
  };
  require(fits(), "Bilinear needs x1 [..., {}] and x2 [..., {}] with equal further dims, got {} and {}", weight_.dim(1),
          weight_.dim(2), x1.type(), x2.type());
  const Tensor y = einsum("...i,oij,...j->...o", at_call(x1), weight_, x2);
  return bias_.is_null() ? y : at_call(y) + bias_;
}

Conv1D::Conv1D(std::int64_t in, std::int64_t out, double standard_deviation, DType dtype) {
  weight_ = add_parameter("weight", Type::array(dtype, {in, out}), normal(0, standard_deviation));
  bias_ = add_parameter("bias", Type::array(dtype, {out}), zeros());
}
Tensor Conv1D::forward(const Tensor& x) { return at_call(matmul(at_call(x), weight_)) + bias_; }

}  // namespace tessera::nn
