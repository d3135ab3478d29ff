// SPDX-License-Identifier: Apache-2.0
// The shardings of activations between weights that are sharded by columns and rows.
#pragma once

#include <optional>
#include <string>

#include "tessera/frontend/sharding/mark_sharding.h"

namespace tessera::nn {

/// The mesh axis over which the products of a model are sharded.
struct ActivationSharding {
  Mesh mesh;
  std::string axis;
};

/// Returns `x` [b, ...], with the constraint that dim `dim` is sharded over the axis, in `x` and in its gradient. The
/// sharding of the batch dim does not change. Without a `sharding`, returns `x` unchanged.
[[nodiscard]] Tensor over_dim(const Tensor& x, int dim, const std::optional<ActivationSharding>& sharding);
/// Returns `x` [b, ...] replicated over the axis. Its gradient is partial over the axis and may be reduce-scattered
/// directly.
[[nodiscard]] Tensor gathered(const Tensor& x, const std::optional<ActivationSharding>& sharding);

}  // namespace tessera::nn
