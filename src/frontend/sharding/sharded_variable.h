// SPDX-License-Identifier: Apache-2.0
// Variables from the shards of the ranks.
#pragma once

#include "tessera/frontend/tracing/inner.h"

namespace tessera {

/// A variable with this value.
Tensor new_tensor(std::shared_ptr<Node> node);
/// A variable of which this rank holds `shard`, with or without padding. Error if its type is neither.
Tensor sharded_variable(const Type& global, const Sharding& sharding, const Literal& shard);

}  // namespace tessera
