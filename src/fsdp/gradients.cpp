// SPDX-License-Identifier: Apache-2.0
#include "tessera/fsdp/gradients.h"

#include <cmath>

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "unit_names.h"

namespace tessera {
namespace {

void require_root(const nn::Module& module, std::string_view what) {
  require(module.unit().empty() || module.unit() == fsdp::kRootUnit,
          "{} is for the root unit, but {} is a unit below it: call it on the module that was wrapped last", what,
          [&] { return module.unit(); });
}

std::vector<Tensor> stored_gradients(const nn::Module& module) {
  std::vector<Tensor> out;
  for (const Tensor& parameter : module.parameters())
    if (!parameter.grad().is_null()) out.push_back(parameter.grad());
  require(!out.empty(), "no parameter of {} has a gradient; call backward() first", module.class_name());
  return out;
}

Tensor wide_gradient(const Tensor& gradient) {
  const Tensor stored = stored_tensor(gradient);
  return stored.dtype() == DType::kF64 ? stored : stored.to(DType::kF32);
}

// The part of one gradient in the norm of all: its largest magnitude, or the sum of the p-th powers.
Tensor part_of_norm(const Tensor& gradient, double norm_type) {
  const Tensor wide = wide_gradient(gradient);
  if (std::isinf(norm_type)) return max(abs(wide));
  if (norm_type == 2) return sum(square(wide));
  if (norm_type == 1) return sum(abs(wide));
  return sum(pow(abs(wide), norm_type));
}

Tensor norm_of(const std::vector<Tensor>& gradients, double norm_type) {
  Tensor total;
  for (const Tensor& gradient : gradients) {
    const Tensor part = part_of_norm(gradient, norm_type);
    if (total.is_null())
      total = part;
    else
      total = std::isinf(norm_type) ? maximum(total, part) : total + part;
  }
  if (std::isinf(norm_type) || norm_type == 1) return total;
  return norm_type == 2 ? sqrt(total) : pow(total, 1 / norm_type);
}

}  // namespace

Tensor clip_grad_norm_(nn::Module& module, double max_norm, double norm_type) {
  require_root(module, "clip_grad_norm_");
  require(max_norm > 0, "clip_grad_norm_: max_norm must be positive, got {}", max_norm);
  require(norm_type > 0, "clip_grad_norm_: norm_type must be positive (or infinity), got {}", norm_type);
  const TraceScope scope("clip_grad_norm", "");
  const std::vector<Tensor> gradients = stored_gradients(module);
  Tensor norm = norm_of(gradients, norm_type);
  const Tensor factor = minimum(max_norm / (norm + 1e-6), 1.0);
  for (Tensor gradient : gradients) gradient.assign(stored_tensor(gradient) * factor.to(gradient.dtype()));
  return norm;
}

NoSync::NoSync(nn::Module& module) {
  require_root(module, "no_sync");
  for (const Tensor& parameter : module.parameters()) {
    bool& defers = parameter.impl().gradient_rules.defers_reduction;
    require(!defers, "no_sync within no_sync: {} is in such a scope already", parameter.name());
    defers = true;
    parameters_.push_back(parameter);
  }
}

NoSync::~NoSync() {
  for (const Tensor& parameter : parameters_) parameter.impl().gradient_rules.defers_reduction = false;
}

void reduce_gradients_at_once(const nn::Module& module) {
  for (const Tensor& parameter : module.parameters()) parameter.impl().gradient_rules.reduces_at_once = true;
}

void set_gradient_divide_factors(nn::Module& module, double pre, double post, std::int64_t devices, bool recursive) {
  require(pre > 0 && post > 0, "gradient divide factors must be positive, got {} and {}", pre, post);
  std::map<const TensorImpl*, std::string> units;
  if (!recursive) units = fsdp::assign_units(module, fsdp::units_below(module));
  for (const Tensor& parameter : module.parameters())
    if (recursive || units.at(&parameter.impl()) == fsdp::kRootUnit)
      parameter.impl().gradient_rules.scale = static_cast<double>(devices) / (pre * post);
}

}  // namespace tessera
