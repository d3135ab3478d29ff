// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/nn/initializers.h"

namespace tessera::nn {

Conv2d::Conv2d(std::int64_t in, std::int64_t out, const Dims& kernel_size, const Options& options) : options_(options) {
  require(kernel_size.size() == 1 || kernel_size.size() == 2, "Conv2d: kernel_size needs one number or two, got {}",
          kernel_size.size());
  require(options.groups >= 1 && in % options.groups == 0 && out % options.groups == 0,
          "Conv2d: {} groups do not divide {} and {} channels", options.groups, in, out);
  const auto taps = kernel_size.front() * kernel_size.back();
  const std::int64_t fan_in = in / options.groups * taps;
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  weight_ = add_parameter(
      "weight", Type::array(options.dtype, {out, in / options.groups, kernel_size.front(), kernel_size.back()}),
      uniform(-bound, bound));
  if (options.bias) bias_ = add_parameter("bias", Type::array(options.dtype, {out}), uniform(-bound, bound));
}

Tensor Conv2d::forward(const Tensor& x) {
  const Tensor y = conv2d(at_call(x), weight_, {options_.stride, options_.padding, options_.dilation, options_.groups});
  return bias_.is_null() ? y : at_call(y) + per_channel(bias_, y);
}

BatchNorm2d::BatchNorm2d(std::int64_t features, const Options& options) : options_(options) {
  const Type type = Type::array(options.dtype, {features});
  if (options.affine) {
    weight_ = add_parameter("weight", type, ones());
    bias_ = add_parameter("bias", type, zeros());
  }
  if (!options.track_running_stats) return;
  running_mean_ = add_buffer("running_mean", type, zeros());
  running_var_ = add_buffer("running_var", type, ones());
  num_batches_tracked_ = add_buffer("num_batches_tracked", Type::scalar(DType::kS64), zeros());
}

void BatchNorm2d::track(const ChannelStatistics& batch, double count) {
  const double unbiased = count > 1 ? count / (count - 1) : 1;
  const auto moved = [&](const Tensor& running, const Tensor& now) {
    return running.detach() * (1 - options_.momentum) + now.detach().to(options_.dtype) * options_.momentum;
  };
  running_mean_.assign(moved(running_mean_, batch.mean));
  running_var_.assign(moved(running_var_, batch.variance * unbiased));
  num_batches_tracked_.assign(num_batches_tracked_ + 1.0);
}

Tensor BatchNorm2d::forward(const Tensor& x) {
  Tensor y;
  if (is_training() || running_mean_.is_null()) {
    const ChannelStatistics batch = channel_statistics(x);
    if (is_training() && !running_mean_.is_null())
      track(batch, static_cast<double>(x.element_count()) / static_cast<double>(std::max<std::int64_t>(x.dim(1), 1)));
    y = normalize_channels(x, batch.mean, batch.variance, options_.epsilon);
  } else {
    y = normalize_channels(x, running_mean_.detach(), running_var_.detach(), options_.epsilon);
  }
  return weight_.is_null() ? y : at_call(at_call(y) * per_channel(weight_, y)) + per_channel(bias_, y);
}

AdaptiveAvgPool2d::AdaptiveAvgPool2d(const Dims& output_size) {
  require(std::all_of(output_size.begin(), output_size.end(), [](std::int64_t size) { return size == 1; }),
          "AdaptiveAvgPool2d: only output_size 1 is supported, got {}", fmt::join(output_size, "x"));
}

}  // namespace tessera::nn
