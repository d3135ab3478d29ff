// SPDX-License-Identifier: Apache-2.0
// Keeps the annotation of a value that a rewrite replaces.
#pragma once

#include "tessera/ir/builder.h"

namespace tessera {

/// Returns the value with the annotation of the value that it replaces: one sharding mark, or one for each leaf of a
/// tuple.
Value marked(Value value, const ShardingRef& sharding);

}  // namespace tessera
