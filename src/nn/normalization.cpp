// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/normalization.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {
namespace {

Tensor in_wide_type(const Tensor& x) {
  return x.dtype() == DType::kBF16 || x.dtype() == DType::kF16 ? x.to(DType::kF32) : x;
}

void check_width(std::string_view layer, const Tensor& x, std::int64_t width) {
  (void)library_call({&x}, trace().call_site(std::source_location::current()), [&] {
    require(x.ndim() >= 1 && x.dim(-1) == width, "{} of {} elements needs x [..., {}], got {}", layer, width, width,
            x.type());
    return x;
  });
}

// Mean 0 and variance 1 over the dims.
Tensor standardized(const Tensor& x, double epsilon, std::vector<int> dims = {-1}) {
  const ReduceOptions over{.dims = std::move(dims), .keep_dims = true};
  const Tensor centered = x - mean(x, over);
  return centered * rsqrt(mean(square(centered), over) + epsilon);
}

}  // namespace

LayerNorm::LayerNorm(std::int64_t width, const Options& options) : width_(width), epsilon_(options.epsilon) {
  if (!options.elementwise_affine) return;
  weight_ = add_parameter("weight", Type::array(options.dtype, {width}), ones());
  if (options.bias) bias_ = add_parameter("bias", Type::array(options.dtype, {width}), zeros());
}

Tensor LayerNorm::forward(const Tensor& x) {
  check_width("LayerNorm", x, width_);
  if (!bias_.is_null()) return layer_norm(at_call(x), weight_, bias_, epsilon_);
  const Tensor normal = standardized(in_wide_type(x), epsilon_);
  const Tensor scaled = weight_.is_null() ? normal : normal * weight_.to(normal.dtype());
  return scaled.to(x.dtype());
}

RMSNorm::RMSNorm(std::int64_t width, const Options& options) : width_(width), epsilon_(options.epsilon) {
  if (options.elementwise_affine) weight_ = add_parameter("weight", Type::array(options.dtype, {width}), ones());
}

Tensor RMSNorm::forward(const Tensor& x) {
  check_width("RMSNorm", x, width_);
  const Tensor wide = in_wide_type(x);
  const Tensor power = mean(at_call(at_call(wide) * wide), {.dims = {-1}, .keep_dims = true});
  const Tensor normal = (wide * rsqrt(power + epsilon_)).to(x.dtype());
  return weight_.is_null() ? normal : at_call(normal) * weight_;
}

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const Options& options)
    : groups_(groups), channels_(channels), epsilon_(options.epsilon) {
  require(groups >= 1 && channels >= 1 && channels % groups == 0, "GroupNorm: {} groups do not divide {} channels",
          groups, channels);
  if (!options.affine) return;
  weight_ = add_parameter("weight", Type::array(options.dtype, {channels}), ones());
  bias_ = add_parameter("bias", Type::array(options.dtype, {channels}), zeros());
}

Tensor GroupNorm::forward(const Tensor& x) {
  require(x.ndim() >= 2 && x.dim(1) == channels_, "GroupNorm of {} channels needs x [n, {}, ...], got {}", channels_,
          channels_, x.type());
  require(x.element_count() != groups_, "GroupNorm needs more than one value for each of {} groups, got {}", groups_,
          x.type());
  const std::int64_t each = x.element_count() / std::max<std::int64_t>(x.dim(0) * groups_, 1);
  const Tensor grouped = in_wide_type(x).reshape({x.dim(0), groups_, each});
  const Tensor y = standardized(grouped, epsilon_).reshape(x.dims()).to(x.dtype());
  return weight_.is_null() ? y : at_call(at_call(y) * per_channel(weight_, y)) + per_channel(bias_, y);
}

InstanceNorm::InstanceNorm(std::int64_t features, const Options& options, int ndim)
    : features_(features), epsilon_(options.epsilon), ndim_(ndim) {
  require(features >= 1, "InstanceNorm: the number of channels must be positive, got {}", features);
  if (!options.affine) return;
  weight_ = add_parameter("weight", Type::array(options.dtype, {features}), ones());
  bias_ = add_parameter("bias", Type::array(options.dtype, {features}), zeros());
}

Tensor InstanceNorm::forward(const Tensor& x) {
  require(x.ndim() == ndim_ && x.dim(1) == features_,
          "{}({}) takes a tensor of {} dims with {} channels in dim 1, got {}", class_name(), features_, ndim_,
          features_, x.type());
  require(x.element_count() != x.dim(0) * features_ || x.dim(0) == 0,
          "{} needs more than one value for each channel of a sample, got {}", class_name(), x.type());
  const std::vector<int> further = ndim_ == 3 ? std::vector<int>{2} : std::vector<int>{2, 3};
  const Tensor y = standardized(in_wide_type(x), epsilon_, further).to(x.dtype());
  return weight_.is_null() ? y : at_call(at_call(y) * per_channel(weight_, y)) + per_channel(bias_, y);
}

}  // namespace tessera::nn
