// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/activation_sharding.h"

#include "tessera/base/text.h"

namespace tessera::nn {
namespace {

// Returns a spec that leaves dim 0 (the batch) to propagation and every other dim unsharded.
std::vector<PartitionSpec::Entry> batch_only(const Tensor& x) {
  std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(x.ndim()));
  entries.front() = kUnconstrained;
  return entries;
}

}  // namespace

Tensor over_dim(const Tensor& x, int dim, const std::optional<ActivationSharding>& split) {
  if (!split) return x;
  if (x.dim(dim) == 1) return gathered(x, split);  // a single token
  auto entries = batch_only(x);
  at(entries, dim) = PartitionSpec::Entry(split->axis);
  return mark_sharding_with_gradients(x, split->mesh, PartitionSpec(std::move(entries)));
}

Tensor gathered(const Tensor& x, const std::optional<ActivationSharding>& split) {
  if (!split) return x;
  return with_sharding_constraint(x, split->mesh, PartitionSpec(batch_only(x)));
}

}  // namespace tessera::nn
