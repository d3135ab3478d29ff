// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/batch_norm.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {

BatchNorm::BatchNorm(std::int64_t features, const Options& options, std::vector<int> ndims)
    : features_(features), options_(options), ndims_(std::move(ndims)) {
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

void BatchNorm::track(const ChannelStatistics& batch, double count) {
  const double unbiased = count > 1 ? count / (count - 1) : 1;
  const auto moved = [&](const Tensor& running, const Tensor& now) {
    return running.detach() * (1 - options_.momentum) + now.detach().to(running.dtype()) * options_.momentum;
  };
  running_mean_.assign(moved(running_mean_, batch.mean));
  running_var_.assign(moved(running_var_, batch.variance * unbiased));
  num_batches_tracked_.assign(num_batches_tracked_ + 1.0);
}

Tensor BatchNorm::forward(const Tensor& x) {
  const bool has_dims = std::find(ndims_.begin(), ndims_.end(), x.ndim()) != ndims_.end();
  require(has_dims && x.dim(1) == features_, "{}({}) takes a tensor of {} dims with {} channels in dim 1, got {}",
          class_name(), features_, fmt::join(ndims_, " or "), features_, x.type());
  Tensor y;
  if (is_training() || running_mean_.is_null()) {
    const std::int64_t count = x.element_count() / std::max<std::int64_t>(features_, 1);
    require(count != 1, "{} computes statistics of the batch, which needs more than one value for each channel, got {}",
            class_name(), x.type());
    const ChannelStatistics batch = channel_statistics(x);
    if (is_training() && !running_mean_.is_null()) track(batch, static_cast<double>(count));
    y = normalize_channels(x, batch.mean, batch.variance, options_.epsilon);
  } else {
    y = normalize_channels(x, running_mean_.detach(), running_var_.detach(), options_.epsilon);
  }
  return weight_.is_null() ? y : at_call(at_call(y) * per_channel(weight_, y)) + per_channel(bias_, y);
}

}  // namespace tessera::nn
