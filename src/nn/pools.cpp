// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/pools.h"

#include <fmt/format.h>

#include <algorithm>

#include "constant_positions.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::nn {
namespace {

void check_output_size(std::string_view layer, const Dims& sizes) {
  const bool is_positive = std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size >= 1; });
  require((sizes.size() == 1 || sizes.size() == 2) && is_positive,
          "{}: output_size needs one or two positive numbers, got {{{}}}", layer, fmt::join(sizes, ", "));
}

// Replaces a dim by the largest elements of `count` windows. Shorter windows repeat their last element.
Tensor largest_of_windows(const Tensor& x, int dim, std::int64_t count) {
  const std::int64_t size = x.dim(dim);
  require(size >= 1, "the largest element of a window needs elements, got {}", x.type());
  const auto limit_of = [&](std::int64_t window) { return ((window + 1) * size + count - 1) / count; };
  std::int64_t longest = 1;
  for (std::int64_t i = 0; i < count; ++i) longest = std::max(longest, limit_of(i) - i * size / count);
  std::vector<std::int32_t> positions;
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t k = 0; k < longest; ++k)
      positions.push_back(static_cast<std::int32_t>(std::min(i * size / count + k, limit_of(i) - 1)));
  const auto where = detail::current_call();
  Dims windows = x.dims();
  windows[static_cast<std::size_t>(dim)] = count;
  windows.insert(windows.begin() + dim + 1, longest);
  const Tensor elements = index_select({x, where}, dim, {constant_positions(positions, where), where});
  return max({elements.reshape(windows, where), where}, {.dims = {dim + 1}});
}

}  // namespace

Tensor MaxPool1d::forward(const Tensor& x) { return max_pool1d(at_call(x), options_); }
Tensor AvgPool1d::forward(const Tensor& x) { return avg_pool1d(at_call(x), options_); }

AdaptiveAvgPool1d::AdaptiveAvgPool1d(std::int64_t output_size) : output_size_(output_size) {
  require(output_size >= 1, "AdaptiveAvgPool1d: output_size must be positive, got {}", output_size);
}
Tensor AdaptiveAvgPool1d::forward(const Tensor& x) { return adaptive_avg_pool1d(at_call(x), output_size_); }

AdaptiveAvgPool2d::AdaptiveAvgPool2d(Size2d output_size) : output_size_(std::move(output_size)) {
  check_output_size("AdaptiveAvgPool2d", output_size_);
}

AdaptiveMaxPool1d::AdaptiveMaxPool1d(std::int64_t output_size) : output_size_(output_size) {
  require(output_size >= 1, "AdaptiveMaxPool1d: output_size must be positive, got {}", output_size);
}

Tensor AdaptiveMaxPool1d::forward(const Tensor& x) {
  require(x.ndim() == 3, "AdaptiveMaxPool1d needs a sequence [n, c, l], got {}", x.type());
  return largest_of_windows(x, 2, output_size_);
}

AdaptiveMaxPool2d::AdaptiveMaxPool2d(Size2d output_size) : output_size_(std::move(output_size)) {
  check_output_size("AdaptiveMaxPool2d", output_size_);
}

Tensor AdaptiveMaxPool2d::forward(const Tensor& x) {
  require(x.ndim() == 4, "AdaptiveMaxPool2d needs an image [n, c, h, w], got {}", x.type());
  const Dims& sizes = output_size_;
  return largest_of_windows(largest_of_windows(x, 2, sizes.front()), 3, sizes.back());
}

}  // namespace tessera::nn
