// SPDX-License-Identifier: Apache-2.0
#include "reproducible_norm.h"

#include <bit>
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::trainer {
namespace {

// The sum of the squares of a gradient, f64.
Tensor sum_of_squares(const Tensor& gradient) {
  const auto elements = static_cast<std::uint64_t>(gradient.type().element_count());
  const int bits = 62 - static_cast<int>(std::bit_width(elements));
  const double steps = std::ldexp(1.0, bits);
  const Tensor wide = gradient.to(DType::kF64);
  const Tensor largest = max(abs(wide));
  const Tensor part = wide / where(largest > 0.0, largest, 1.0);  // from -1 to 1
  const Tensor total = sum(round(part * part * steps).to(DType::kS64)).to(DType::kF64);
  return total * (1 / steps) * largest * largest;
}

}  // namespace

Tensor reproducible_norm(const std::vector<Tensor>& parameters) {
  const TraceScope scope("clip_grad_norm", "");
  Tensor total;
  for (const auto& parameter : parameters) {
    if (parameter.grad().is_null()) continue;
    const Tensor part = sum_of_squares(stored_tensor(parameter.grad()));
    total = total.is_null() ? part : total + part;
  }
  require(!total.is_null(), "no parameter has a gradient; call backward() first");
  return sqrt(total);
}

Tensor clip_reproducibly(const std::vector<Tensor>& parameters, double max_norm) {
  Tensor norm = reproducible_norm(parameters);
  const TraceScope scope("clip_grad_norm", "");
  const Tensor factor = minimum(max_norm / (norm + 1e-6), 1.0);
  for (const auto& parameter : parameters) {
    Tensor gradient = parameter.grad();
    if (gradient.is_null()) continue;
    gradient.assign(stored_tensor(gradient) * factor.to(gradient.dtype()));
  }
  return norm;
}

}  // namespace tessera::trainer
