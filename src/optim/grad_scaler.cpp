// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/grad_scaler.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/structural.h"

namespace tessera::optim {
namespace {

Tensor scalar_variable(DType dtype, double value, const char* name) {
  return Tensor::deferred(
      Type::scalar(dtype), [value](Builder& builder, const Type& type) { return ops::full(builder, type, value); },
      name);
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options)
    : options_(options),
      scale_(scalar_variable(DType::kF32, options.init_scale, "grad_scaler.scale")),
      tracker_(scalar_variable(DType::kS32, 0, "grad_scaler.growth_tracker")),
      skipped_(scalar_variable(DType::kS32, 0, "grad_scaler.skipped")) {
  require(options.init_scale > 0, "init_scale must be positive, got {}", options.init_scale);
  require(options.growth_factor > 1, "growth_factor must be above 1, got {}", options.growth_factor);
  require(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor must be in (0, 1), got {}",
          options.backoff_factor);
  require(options.growth_interval > 0, "growth_interval must be positive, got {}", options.growth_interval);
}

Tensor GradScaler::scale(const Tensor& loss) const {
  if (!options_.enabled) return loss;
  const DType dtype = loss.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  return loss.to(dtype) * stored_tensor(scale_).to(dtype);
}

void GradScaler::unscale(Optimizer& optimizer) {
  if (!options_.enabled) return;
  require(std::ranges::find(unscaled_, &optimizer) == unscaled_.end(),
          "unscale() was already called for this optimizer since the last update()");
  unscaled_.push_back(&optimizer);
  const TraceScope scope("grad_scaler", "");
  const Tensor inverse = 1.0 / stored_tensor(scale_);
  for (const Tensor& parameter : optimizer.parameters()) {
    Tensor gradient = parameter.grad();
    if (gradient.is_null()) continue;
    const DType dtype = gradient.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
    const Tensor unscaled = stored_tensor(gradient).to(dtype) * inverse.to(dtype);
    gradient.assign(unscaled.to(gradient.dtype()));
    const Tensor is_finite = all(isfinite(stored_tensor(gradient)));
    finite_ = finite_.is_null() ? is_finite : finite_ && is_finite;
  }
}

void GradScaler::step(Optimizer& optimizer, std::source_location where) {
  if (!options_.enabled) return optimizer.step(where);
  if (std::ranges::find(unscaled_, &optimizer) == unscaled_.end()) unscale(optimizer);
  require(!finite_.is_null(), "no parameter has a gradient; call backward() first");
  optimizer.set_condition(finite_, skipped_);
  optimizer.step(where);
  optimizer.set_condition({}, skipped_);  // releases the predicate of this step
}

void GradScaler::update() {
  if (!options_.enabled) return;
  require(!finite_.is_null(), "update() of a GradScaler without a step() since the last one");
  const TraceScope scope("grad_scaler", "");
  const Tensor scale = stored_tensor(scale_);
  const Tensor count = stored_tensor(tracker_) + 1.0;
  const Tensor grows = count == static_cast<double>(options_.growth_interval);
  const Tensor grown = scale * options_.growth_factor;
  const Tensor next = where(grows && isfinite(grown), grown, scale);
  skipped_.assign(stored_tensor(skipped_) + (!finite_).to(DType::kS32));
  tracker_.assign(where(finite_ && !grows, count, 0.0));
  scale_.assign(where(finite_, next, scale * options_.backoff_factor));
  finite_ = {};
  unscaled_.clear();
}

double GradScaler::get_scale() const { return options_.enabled ? scale_.item() : 1; }
std::int64_t GradScaler::skipped_steps() const { return static_cast<std::int64_t>(skipped_.item()); }

StateDict GradScaler::state_dict() const {
  StateDict out;
  for (const Tensor& variable : {scale_, tracker_, skipped_}) out.add({variable.name(), variable, {}});
  return out;
}

LoadStateResult GradScaler::load_state_dict(const StateDict& source, const LoadStateOptions& options) {
  return load_state(state_dict(), source, "the gradient scaler", options);
}

}  // namespace tessera::optim
