// SPDX-License-Identifier: Apache-2.0
// How activations follow weights that are split by columns and rows.
#pragma once

#include <optional>
#include <string>

#include "tessera/frontend/sharding/mark_sharding.h"

namespace tessera::nn {

/// The mesh axis over which a model's products are shared out.
struct ActivationSplit {
  Mesh mesh;
  std::string axis;
};

/// `x` [b, ...] and its gradient with dim `dim` over the axis; the batch stays as it is. `x` itself without a split.
[[nodiscard]] Tensor over_dim(const Tensor& x, int dim, const std::optional<ActivationSplit>& split);
/// `x` [b, ...] whole over the axis. Its gradient, a sum over the devices of the axis, may be scattered at once.
[[nodiscard]] Tensor whole(const Tensor& x, const std::optional<ActivationSplit>& split);

}  // namespace tessera::nn
