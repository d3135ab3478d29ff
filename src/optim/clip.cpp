// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/error.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/optim/optimizer.h"

namespace tessera::optim {

Tensor global_norm(const std::vector<Tensor>& parameters) {
  const TraceScope scope("clip_grad_norm", "");
  Tensor total;
  for (const auto& parameter : parameters) {
    if (parameter.grad().is_null()) continue;
    const Tensor gradient = stored_tensor(parameter.grad());
    const Tensor wide = gradient.dtype() == DType::kF64 ? gradient : gradient.to(DType::kF32);
    const Tensor part = sum(square(wide));
    total = total.is_null() ? part : total + part;
  }
  require(!total.is_null(), "no parameter has a gradient; call backward() first");
  return sqrt(total);
}

Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm) {
  require(max_norm > 0, "max_norm must be positive, got {}", max_norm);
  Tensor norm = global_norm(parameters);
  const TraceScope scope("clip_grad_norm", "");
  const Tensor factor = minimum(max_norm / (norm + 1e-6), 1.0);
  for (const auto& parameter : parameters) {
    Tensor gradient = parameter.grad();
    if (gradient.is_null()) continue;
    gradient.assign(stored_tensor(gradient) * factor.to(gradient.dtype()));
  }
  return norm;
}

}  // namespace tessera::optim
