// SPDX-License-Identifier: Apache-2.0
// The annotation of what a rewrite replaces.
#pragma once

#include "tessera/ir/builder.h"

namespace tessera {

/// The value under the annotation of what it stands for: a sharding mark, or one for each leaf of a tuple.
Value marked(Value value, const ShardingRef& sharding);

}  // namespace tessera
