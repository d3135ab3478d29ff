// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/pools.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/frontend/tracing/inner.h"

namespace tessera::nn {

Tensor MaxPool1d::forward(const Tensor& x) { return max_pool1d(at_call(x), options_); }
Tensor AvgPool1d::forward(const Tensor& x) { return avg_pool1d(at_call(x), options_); }

AdaptiveAvgPool1d::AdaptiveAvgPool1d(std::int64_t output_size) : output_size_(output_size) {
  require(output_size >= 1, "AdaptiveAvgPool1d: output_size must be positive, got {}", output_size);
}
Tensor AdaptiveAvgPool1d::forward(const Tensor& x) { return adaptive_avg_pool1d(at_call(x), output_size_); }

AdaptiveAvgPool2d::AdaptiveAvgPool2d(Size2d output_size) : output_size_(std::move(output_size)) {
  const Dims& sizes = output_size_;
  const bool is_positive = std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size >= 1; });
  require((sizes.size() == 1 || sizes.size() == 2) && is_positive,
          "AdaptiveAvgPool2d: output_size needs one or two positive numbers, got {{{}}}", fmt::join(sizes, ", "));
}

}  // namespace tessera::nn
