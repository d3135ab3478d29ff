// SPDX-License-Identifier: Apache-2.0
// Negative log likelihoods of numbers.
#include <cmath>
#include <numbers>

#include "losses/loss_parts.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::nn {
namespace {

// The variances with the dims of x, at least epsilon. The gradient is that of the variances themselves.
Tensor bounded_variance(const Tensor& variance, const Tensor& x, double epsilon) {
  require(!variance.is_null() && is_float(variance.dtype()), "gaussian_nll_loss needs a variance of floats");
  Dims narrow = x.dims();
  Dims rows = x.dims();
  if (!narrow.empty()) narrow.back() = 1, rows.pop_back();
  require(variance.dims() == x.dims() || variance.dims() == narrow || variance.dims() == rows,
          "gaussian_nll_loss: the variance of {} may have size 1 in the last dim or lack it, got {}", x.type(),
          variance.type());
  const bool lacks_dim = variance.ndim() < x.ndim();
  const Tensor v = wide_float(lacks_dim ? variance.unsqueeze(-1) : variance).to(x.dtype());
  return v + (maximum(v, epsilon) - v).detach();
}

}  // namespace

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& variance, const GaussianNllOptions& options,
                         std::source_location where) {
  return library_call({&x, &y}, where, [&]() -> Tensor {
    check_pair("gaussian_nll_loss", x, y);
    require(options.epsilon > 0, "gaussian_nll_loss: epsilon must be above 0, got {}", options.epsilon);
    const Tensor mean = wide_float(x);
    const Tensor v = bounded_variance(variance, mean, options.epsilon);
    Tensor losses = (log(v) + square(mean - y.to(mean.dtype())) / v) * 0.5;
    if (options.full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
    return reduced_loss(losses, options.reduction);
  });
}

Tensor poisson_nll_loss(const Tensor& x, const Tensor& y, const PoissonNllOptions& options,
                        std::source_location where) {
  return library_call({&x, &y}, where, [&]() -> Tensor {
    check_pair("poisson_nll_loss", x, y);
    require(options.epsilon >= 0, "poisson_nll_loss: epsilon must not be negative, got {}", options.epsilon);
    const Tensor input = wide_float(x);
    const Tensor count = y.to(input.dtype());
    Tensor losses = options.log_input ? exp(input) - count * input : input - count * log(input + options.epsilon);
    if (options.full) {
      const Tensor is_large = count > 1.0;
      const Tensor n = tessera::where(is_large, count, 1.0);
      const Tensor logarithm = n * log(n) - n + log(n * (2 * std::numbers::pi)) * 0.5;
      losses = losses + tessera::where(is_large, logarithm, 0.0);
    }
    return reduced_loss(losses, options.reduction);
  });
}

}  // namespace tessera::nn
