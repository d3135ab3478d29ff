// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/pools.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::nn {

AdaptiveAvgPool2d::AdaptiveAvgPool2d(Dims output_size) : output_size_(std::move(output_size)) {
  const bool is_positive =
      std::all_of(output_size_.begin(), output_size_.end(), [](std::int64_t size) { return size >= 1; });
  require((output_size_.size() == 1 || output_size_.size() == 2) && is_positive,
          "AdaptiveAvgPool2d: output_size needs one or two positive numbers, got {{{}}}",
          fmt::join(output_size_, ", "));
}

}  // namespace tessera::nn
