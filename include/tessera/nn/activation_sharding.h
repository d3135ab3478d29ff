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

/// Returns `x` [b, ...], and constrains it and its gradient: dim `dim` is sharded over the axis; the sharding of the
/// batch does not change. Returns `x` itself without a sharding.
[[nodiscard]] Tensor over_dim(const Tensor& x, int dim, const std::optional<ActivationSharding>& sharding);
/// Returns `x` [b, ...] replicated over the axis. Its gradient is partial over the axis and may be reduce-scattered
/// directly.
[[nodiscard]] Tensor gathered(const Tensor& x, const std::optional<ActivationSharding>& sharding);

}  // namespace tessera::nn
