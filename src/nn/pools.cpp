// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/pools.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::nn {

AdaptiveAvgPool2d::AdaptiveAvgPool2d(Size2d output_size) : output_size_(std::move(output_size)) {
  const Dims& sizes = output_size_;
  const bool is_positive = std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size >= 1; });
  require((sizes.size() == 1 || sizes.size() == 2) && is_positive,
          "AdaptiveAvgPool2d: output_size needs one or two positive numbers, got {{{}}}", fmt::join(sizes, ", "));
}

}  // namespace tessera::nn
